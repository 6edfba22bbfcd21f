/* inside_build.c - makes the inside of a sandbox around the calling process: the root, its mounts,
 * the loopback interface, and the end of all rights. It runs in process 1, which has just been
 * cloned into new namespaces and is alone there, so nothing it does is seen outside.
 *
 * Each step is a function that returns whether it worked, with errno; the table at the end names
 * them in order. The old root goes away before anything of the sandbox's user runs. */
#define _GNU_SOURCE /* pivot_root() by number, setresuid(), MNT_DETACH */
#include "runtime/inside.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Small files of the pool's and the conversation's: sockets, the environment, secrets. */
#define RUN_BYTES "1048576"

/* What programs share by shm_open() is charged to the sandbox's memory like all else. */
#define SHM_BYTES "67108864"

/* Soft, for programs that close every descriptor there may be. */
#define DESCRIPTORS_SOFT 1024

static bool mount_new(const char *type, const char *where, unsigned long flags, const char *options)
{
    return mount(type, where, type, flags | MS_NOSUID, options) == 0;
}

static bool make_folder(const char *path, mode_t mode)
{
    return (mkdir(path, mode) == 0 && chmod(path, mode) == 0) || errno == EEXIST;
}

static bool owned_folder(const struct weir_inside_spec *spec, const char *path, mode_t mode)
{
    return make_folder(path, mode) && chown(path, spec->uid, spec->uid) == 0;
}

/* Folders of the host that are mounted inside. Of process 1's own, of which there is one. */
static int root_fd = -1;
static int egress_fd = -1;

/* ---- the steps, in their order ---- */

/* Until the next step the process is still the user that Weir runs as, and may pass through folders
 * that are only that user's; what it opens can be mounted by its number afterwards. */
static bool open_outside(const struct weir_inside_spec *spec)
{
    root_fd = open(spec->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd != -1 && spec->egress[0] != 0) {
        egress_fd = open(spec->egress, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return root_fd != -1 && (spec->egress[0] == 0 || egress_fd != -1);
}

static bool become_root(const struct weir_inside_spec *spec)
{
    (void)spec;
    return setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0;
}

static bool leave_propagation(const struct weir_inside_spec *spec)
{
    (void)spec;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* A tmpfs holds the upper half of the root, and so bounds what can be written. It covers /tmp of
 * the host, which this process needs no more. */
static bool mount_root(const struct weir_inside_spec *spec)
{
    char text[256];
    snprintf(text, sizeof text, "size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=0755",
             spec->disk_bytes, spec->disk_bytes / 4096 + 1024);
    if (!mount_new("tmpfs", "/tmp", MS_NODEV, text) || chdir("/tmp") != 0 ||
        !make_folder("upper", 0755) || !make_folder("work", 0755) || !make_folder("root", 0755)) {
        return false;
    }
    snprintf(text, sizeof text, "lowerdir=/proc/self/fd/%d,upperdir=upper,workdir=work,userxattr",
             root_fd);
    return mount_new("overlay", "root", MS_NODEV, text) && chdir("root") == 0;
}

static bool mount_folders(const struct weir_inside_spec *spec)
{
    return make_folder("proc", 0555) && make_folder("dev", 0755) && make_folder("tmp", 01777) &&
           chmod("tmp", 01777) == 0 && make_folder("run", 0755) &&
           owned_folder(spec, "workspace", 0700) && make_folder("run/weir", 0755) &&
           mount_new("tmpfs", "run/weir", MS_NODEV | MS_NOEXEC, "mode=0755,size=" RUN_BYTES) &&
           chown("run/weir", spec->uid, spec->uid) == 0 &&
           mount_new("proc", "proc", MS_NODEV | MS_NOEXEC, NULL);
}

/* The routes that the sandbox may call, as a folder with a socket. */
static bool mount_egress(const struct weir_inside_spec *spec)
{
    char path[64];
    if (egress_fd == -1) {
        return true;
    }
    (void)spec;
    snprintf(path, sizeof path, "/proc/self/fd/%d", egress_fd);
    return make_folder("run/weir/egress", 0755) &&
           mount(path, "run/weir/egress", NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, "run/weir/egress", NULL,
                 MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static bool bind_device(const char *name)
{
    char outside[64], inside[64];
    snprintf(outside, sizeof outside, "/dev/%s", name);
    snprintf(inside, sizeof inside, "dev/%s", name);
    int fd = open(inside, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (fd == -1) {
        return false;
    }
    close(fd);
    return mount(outside, inside, NULL, MS_BIND, NULL) == 0;
}

static bool mount_devices(const struct weir_inside_spec *spec)
{
    static const char *const names[] = {"null", "zero", "full", "random", "urandom"};
    static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
                                           {"/proc/self/fd/0", "dev/stdin"},
                                           {"/proc/self/fd/1", "dev/stdout"},
                                           {"/proc/self/fd/2", "dev/stderr"}};
    (void)spec;
    /* Not MS_NODEV: the devices would not open. Only those bound here are there, since a user
     * namespace may make none. */
    if (!mount_new("tmpfs", "dev", MS_NOEXEC, "mode=0755,size=65536")) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!bind_device(names[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (symlink(links[i][0], links[i][1]) != 0) {
            return false;
        }
    }
    return make_folder("dev/shm", 01777) &&
           mount_new("tmpfs", "dev/shm", MS_NODEV | MS_NOEXEC, "mode=1777,size=" SHM_BYTES);
}

/* The old root is mounted over the new one, and then let go. */
static bool leave_old_root(const struct weir_inside_spec *spec)
{
    (void)spec;
    close(root_fd);
    if (egress_fd != -1) {
        close(egress_fd);
    }
    return syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           chdir("/") == 0;
}

static bool raise_loopback(const struct weir_inside_spec *spec)
{
    if (spec->host_network) {
        return true;
    }
    struct ifreq request = {.ifr_flags = IFF_UP};
    memcpy(request.ifr_name, "lo", sizeof "lo");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return false;
    }
    int result = ioctl(fd, SIOCSIFFLAGS, &request);
    int error = errno;
    close(fd);
    errno = error;
    return result == 0;
}

static bool set_host_name(const struct weir_inside_spec *spec)
{
    size_t bytes = strlen(spec->name);
    return sethostname(spec->name, bytes < 64 ? bytes : 64) == 0;
}

static bool set_limits(const struct weir_inside_spec *spec)
{
    struct rlimit limit;
    (void)spec;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return false;
    }
    if (limit.rlim_max > DESCRIPTORS_SOFT) {
        limit.rlim_cur = DESCRIPTORS_SOFT;
    }
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0;
}

static bool drop_bounding_set(void)
{
    for (unsigned long right = 0; right < 64; right++) {
        if (prctl(PR_CAPBSET_DROP, right, 0, 0, 0) != 0) {
            return errno == EINVAL && right > CAP_LAST_CAP; /* past the last that there is */
        }
    }
    return true;
}

/* A mapping of one user only has no groups that could be left. */
static bool leave_groups(const struct weir_inside_spec *spec)
{
    return spec->uid == 0 || setgroups(0, NULL) == 0;
}

static bool drop_rights(const struct weir_inside_spec *spec)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    return drop_bounding_set() && leave_groups(spec) &&
           setresgid(spec->uid, spec->uid, spec->uid) == 0 &&
           setresuid(spec->uid, spec->uid, spec->uid) == 0 &&
           syscall(SYS_capset, &header, none) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool set_filter(const struct weir_inside_spec *spec)
{
    return weir_seccomp_apply(spec->filter);
}

static const struct {
    bool (*work)(const struct weir_inside_spec *spec);
    const char *name;
} steps[] = {
    {open_outside, "open the folder of the root"},
    {become_root, "become root in the user namespace"},
    {leave_propagation, "make the mounts private"},
    {mount_root, "mount the root"},
    {mount_folders, "mount /proc, /tmp and /run/weir"},
    {mount_egress, "mount the folder of the egress socket"},
    {mount_devices, "mount /dev"},
    {leave_old_root, "leave the old root"},
    {raise_loopback, "raise the loopback interface"},
    {set_host_name, "set the host name"},
    {set_limits, "set the limit of descriptors"},
    {drop_rights, "give up all capabilities"},
    {set_filter, "set the system call filter"},
};

const char *weir_inside_build(const struct weir_inside_spec *spec)
{
    umask(022);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (!steps[i].work(spec)) {
            return steps[i].name;
        }
    }
    return NULL;
}
