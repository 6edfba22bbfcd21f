/* Sandboxes as processes in namespaces: what they may do, what they may not, and what is left. Real
 * ones, from a root that holds nothing but busybox. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "runtime/maker.h"
#include "unit/helpers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* However busy the machine is. */
#define PATIENCE_MS 60000

#define MEMORY_BYTES (UINT64_C(64) << 20)
#define DISK_BYTES   (UINT64_C(8) << 20)
#define PROCESSES    48

static struct {
    char home[64]; /* folders of all sandboxes, and the root */
    char root[80];
    char installation[32];
    struct weir_cgroups groups;
    struct weir_seccomp_filter filter;
    struct weir_maker *maker;
    int made;
} fixture;

/* One sandbox. */
struct sandbox {
    char name[64];
    char folder[256];
    int watch;
};

/* What an exec said. */
struct run {
    char out[2][4096];
    size_t bytes[2];
    uint64_t total[2];
    int status;
    int error; /* it could not be started */
};

/* ---- helpers ---- */

static void run_shell(const char *format, ...)
{
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

static int setup_all(void **state)
{
    (void)state;
    static char self[4096];
    snprintf(fixture.home, sizeof fixture.home, "/tmp/weir-sandboxes-%d", (int)getpid());
    snprintf(fixture.root, sizeof fixture.root, "%s/root", fixture.home);
    snprintf(fixture.installation, sizeof fixture.installation, "unit%d", (int)getpid());
    run_shell(
        "mkdir -p %s/bin && chmod 755 %s && cp /bin/busybox %s/bin/ && "
        "for word in sh sleep cat ls id dd echo kill hostname wc nc mount ln head ps env tr; do "
        "ln -s busybox %s/bin/$word; done",
        fixture.root, fixture.home, fixture.root, fixture.root);
    FILE *file = fopen("/proc/self/cgroup", "re");
    assert_non_null(file);
    self[fread(self, 1, sizeof self - 1, file)] = 0;
    fclose(file);
    weir_cgroups_open(&fixture.groups, "/sys/fs/cgroup", self, fixture.installation);
    if (fixture.groups.layout == WEIR_CGROUP_NONE) {
        print_error("%s\n", fixture.groups.why);
        return -1;
    }
    assert_true(weir_seccomp_compile(&fixture.filter));
    fixture.maker = weir_maker_create(&fixture.groups, &fixture.filter);
    assert_non_null(fixture.maker);
    return 0;
}

static int connect_control(const struct sandbox *sandbox)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder = open(sandbox->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_not_equal(folder, -1);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control", folder);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(folder);
    return fd;
}

static void tell(int fd, const struct weir_inside_head *head, const char *data, size_t bytes)
{
    struct iovec parts[2] = {{(void *)head, sizeof *head}, {(void *)data, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    assert_int_not_equal(sendmsg(fd, &message, MSG_NOSIGNAL), -1);
}

/* The next message; its data gets a zero. Returns the data's bytes, or -1 at the end. */
static ssize_t hear(int fd, struct weir_inside_message *message)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    ssize_t bytes = recv(fd, message, sizeof *message - 1, 0);
    if (bytes <= 0) {
        return -1;
    }
    assert_true((size_t)bytes >= sizeof message->head);
    message->data[(size_t)bytes - sizeof message->head] = 0;
    return bytes - (ssize_t)sizeof message->head;
}

static struct weir_maker_order order_of(struct sandbox *sandbox, char *const *argv)
{
    static char path[] = "PATH=/bin", home[] = "HOME=/workspace";
    static char *const envp[] = {path, home, NULL};
    snprintf(sandbox->name, sizeof sandbox->name, "weir-%s-pool-%d", fixture.installation,
             ++fixture.made);
    snprintf(sandbox->folder, sizeof sandbox->folder, "%s/%s", fixture.home, sandbox->name);
    assert_int_equal(mkdir(sandbox->folder, 0700), 0);
    return (struct weir_maker_order){
        .name = sandbox->name,
        .folder = sandbox->folder,
        .root = fixture.root,
        .egress = "",
        .argv = argv,
        .envp = envp,
        .limits = {.memory_bytes = MEMORY_BYTES, .processes = PROCESSES, .cpu_percent = 100},
        .disk_bytes = DISK_BYTES,
        .uid_first = 1000000000u + 65536u * (uint32_t)fixture.made,
        .uid_count = 65536,
        .uid = 1000,
    };
}

static void make_with(struct sandbox *sandbox, char *const *argv)
{
    static struct weir_inside_message message;
    char step[64];
    struct weir_maker_order order = order_of(sandbox, argv);
    int error = weir_maker_make(fixture.maker, &order, step);
    if (error != 0) {
        fail_msg("%s: %s", step, strerror(error));
    }
    sandbox->watch = connect_control(sandbox);
    tell(sandbox->watch, &(struct weir_inside_head){.kind = WEIR_INSIDE_WATCH}, NULL, 0);
    hear(sandbox->watch, &message);
    if (message.head.kind != WEIR_INSIDE_READY) {
        fail_msg("%s: %s", message.data, strerror(message.head.value));
    }
    assert_int_equal(message.head.value, WEIR_INSIDE_VERSION);
}

static void make(struct sandbox *sandbox)
{
    static char *const none[] = {NULL};
    make_with(sandbox, none);
}

static void wait_until_empty(const struct sandbox *sandbox)
{
    uint64_t until_ns = weir_clock_ns() + PATIENCE_MS * UINT64_C(1000000);
    while (weir_cgroup_populated(&fixture.groups, sandbox->name)) {
        assert_true(weir_clock_ns() < until_ns);
        poll(NULL, 0, 1);
    }
}

static void destroy(struct sandbox *sandbox)
{
    assert_true(weir_cgroup_kill(&fixture.groups, sandbox->name));
    wait_until_empty(sandbox);
    assert_true(weir_cgroup_remove(&fixture.groups, sandbox->name));
    close(sandbox->watch);
}

static void end_group(void *context, const char *name)
{
    (void)context;
    struct sandbox sandbox = {.watch = -1};
    snprintf(sandbox.name, sizeof sandbox.name, "%s", name);
    destroy(&sandbox);
}

static int teardown_all(void **state)
{
    (void)state;
    weir_cgroups_list(&fixture.groups, end_group, NULL); /* of tests that failed */
    weir_maker_destroy(fixture.maker);
    for (int tree = 0; tree < WEIR_CGROUP_TREE_COUNT; tree++) {
        if (fixture.groups.parent[tree][0] != 0) {
            assert_int_equal(rmdir(fixture.groups.parent[tree]), 0); /* nothing is left below */
        }
    }
    run_shell("rm -r %s", fixture.home);
    return 0;
}

/* Sends an EXEC; returns its connection. */
static int begin(const struct sandbox *sandbox, uint32_t flags, uint64_t kill_after_ms,
                 const char *script)
{
    char data[2048];
    int fd = connect_control(sandbox);
    int bytes = snprintf(data, sizeof data, "sh%c-c%c%s%cWORD=from the exec%c/workspace", 0, 0,
                         script, 0, 0);
    struct weir_inside_head head = {
        .kind = WEIR_INSIDE_EXEC, .flags = flags, .offset = kill_after_ms, .second = 3};
    tell(fd, &head, data, (size_t)bytes + 1);
    return fd;
}

static void keep(struct run *run, const struct weir_inside_message *message, size_t bytes)
{
    int stream = message->head.value - 1;
    assert_in_range(stream, 0, 1);
    for (size_t i = 0; i < bytes; i++) {
        if (run->bytes[stream] < sizeof run->out[stream] - 1) {
            run->out[stream][run->bytes[stream]++] = message->data[i];
        }
    }
    run->total[stream] += bytes;
}

/* Until it has ended. */
static void finish(int fd, struct run *run)
{
    static struct weir_inside_message message;
    memset(run, 0, sizeof *run);
    for (;;) {
        ssize_t bytes = hear(fd, &message);
        assert_int_not_equal(bytes, -1);
        if (message.head.kind == WEIR_INSIDE_OUTPUT) {
            keep(run, &message, (size_t)bytes);
        } else if (message.head.kind == WEIR_INSIDE_EXITED) {
            run->status = message.head.value;
            break;
        } else if (message.head.kind == WEIR_INSIDE_ERROR) {
            run->error = message.head.value;
            break;
        } else {
            assert_int_equal(message.head.kind, WEIR_INSIDE_STARTED);
        }
    }
    close(fd);
}

static void run_inside(const struct sandbox *sandbox, const char *script, struct run *run)
{
    finish(begin(sandbox, 0, 0, script), run);
}

static void expect_says(const struct sandbox *sandbox, const char *script, const char *said)
{
    struct run run;
    run_inside(sandbox, script, &run);
    if (run.error != 0 || strcmp(run.out[0], said) != 0) {
        fail_msg("%s: %s%s (errno %d, status %d)", script, run.out[0], run.out[1], run.error,
                 run.status);
    }
}

/* ---- what there is inside ---- */

TEST(a_command_says_what_it_has_to_and_how_it_ended)
{
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    run_inside(&sandbox, "echo to you; echo oh >&2; echo $WORD; exit 3", &run);
    assert_string_equal(run.out[0], "to you\nfrom the exec\n");
    assert_string_equal(run.out[1], "oh\n");
    assert_int_equal(WEXITSTATUS(run.status), 3);
    run_inside(&sandbox, "kill -9 $$", &run);
    assert_int_equal(WTERMSIG(run.status), SIGKILL);
    destroy(&sandbox);
}

TEST(programs_have_a_user_without_rights)
{
    struct sandbox sandbox;
    make(&sandbox);
    expect_says(&sandbox, "id -u; id -g; hostname | wc -l", "1000\n1000\n1\n");
    expect_says(&sandbox,
                "while read -r name value; do case $name in Cap*|NoNewPrivs:|Seccomp:) echo $name "
                "$value;; esac; done < /proc/self/status",
                "CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n"
                "CapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n");
    destroy(&sandbox);
}

TEST(programs_see_only_their_sandbox)
{
    struct sandbox sandbox;
    make(&sandbox);
    expect_says(&sandbox, "echo /*", "/bin /dev /proc /run /tmp /workspace\n");
    expect_says(&sandbox, "ls /dev",
                "fd\nfull\nnull\nrandom\nshm\nstderr\nstdin\nstdout\nurandom\n"
                "zero\n");
    expect_says(&sandbox, "set -- /proc/[0-9]*; echo $#", "2\n"); /* process 1 and sh */
    expect_says(&sandbox, "cat /proc/1/environ 2>&1",
                "cat: can't open '/proc/1/environ': Permission denied\n");
    destroy(&sandbox);
}

TEST(programs_write_in_their_own_root_alone)
{
    struct sandbox one, other;
    make(&one);
    make(&other);
    expect_says(&one, "echo mine > /workspace/a; echo mine > /tmp/b; cat /workspace/a /tmp/b",
                "mine\nmine\n");
    expect_says(&other, "ls -A /workspace /tmp", "/tmp:\n\n/workspace:\n");
    expect_says(&one, "busybox touch /bin/x /x /etc 2>&1 | busybox grep -c denied", "3\n");
    destroy(&one);
    destroy(&other);
}

/* ---- what programs may not do ---- */

TEST(what_programs_may_not_do_fails)
{
    static const char *const tries[] = {
        "mount -t tmpfs none /tmp",
        "busybox unshare -U true",
        "busybox unshare -n true",
        "busybox chroot /tmp true",
        "busybox mknod /tmp/disk b 254 0",
        "busybox swapoff -a",
        "busybox pivot_root /tmp /tmp",
        "busybox hostname other",
        "busybox nice -n -5 true",
        "busybox ifconfig eth0",
        "busybox dmesg -n 1",
    };
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        run_inside(&sandbox, tries[i], &run);
        if (run.status == 0 || run.error != 0) {
            fail_msg("%s: %s%s", tries[i], run.out[0], run.out[1]);
        }
    }
    destroy(&sandbox);
}

TEST(process_one_is_beyond_reach)
{
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    run_inside(&sandbox, "for n in 1 2 3 9 11 15 19; do kill -$n 1; done; echo x > /proc/1/mem",
               &run);
    expect_says(&sandbox, "echo there", "there\n");
    destroy(&sandbox);
}

TEST(there_is_no_network_but_loopback)
{
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    run_inside(&sandbox,
               "busybox ifconfig -a | busybox grep -c Link; busybox route -n | wc -l; "
               "nc -w 1 10.0.0.1 80 2>&1",
               &run);
    assert_non_null(strstr(run.out[0], "1\n2\nnc: can't connect to remote host"));
    assert_non_null(strstr(run.out[0], "Network is unreachable"));
    destroy(&sandbox);
}

/* ---- bounds ---- */

TEST(memory_ends_the_program_and_not_the_sandbox)
{
    struct sandbox sandbox;
    struct run run;
    struct weir_cgroup_usage usage;
    make(&sandbox);
    run_inside(&sandbox, "exec busybox tail -c 200000000 /dev/zero", &run);
    assert_true(WIFSIGNALED(run.status) && WTERMSIG(run.status) == SIGKILL);
    assert_true(weir_cgroup_usage(&fixture.groups, sandbox.name, &usage));
    assert_int_equal(usage.oom_kills, 1);
    expect_says(&sandbox, "echo there", "there\n");
    destroy(&sandbox);
}

TEST(processes_and_disk_are_bounded)
{
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    run_inside(&sandbox, "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done", &run);
    assert_non_null(strstr(run.out[1], "fork"));
    destroy(&sandbox);
    make(&sandbox);
    expect_says(&sandbox,
                "dd if=/dev/zero of=/workspace/big bs=1M count=20 2>/dev/null; "
                "[ $(wc -c < /workspace/big) -le 8388608 ] && echo bounded",
                "bounded\n");
    destroy(&sandbox);
}

TEST(a_bomb_of_forks_leaves_the_sandbox_removable)
{
    struct sandbox sandbox;
    make(&sandbox);
    close(begin(&sandbox, WEIR_INSIDE_DETACH, 0, "bomb() { bomb | bomb & }; bomb"));
    struct weir_cgroup_usage usage;
    uint64_t until_ns = weir_clock_ns() + PATIENCE_MS * UINT64_C(1000000);
    do { /* until it is about to meet its bound, at which it comes and goes */
        assert_true(weir_cgroup_usage(&fixture.groups, sandbox.name, &usage));
        assert_true(weir_clock_ns() < until_ns);
    } while (usage.processes < PROCESSES / 2);
    assert_true(usage.processes <= PROCESSES);
    destroy(&sandbox);
}

TEST(a_slow_reader_slows_the_program_down)
{
    struct sandbox sandbox;
    struct run run;
    struct weir_cgroup_usage usage;
    make(&sandbox);
    int fd = begin(&sandbox, 0, 0, "exec head -c 30000000 /dev/zero");
    poll(NULL, 0, 50); /* nothing depends on it: only more would be written, were it not bounded */
    assert_true(weir_cgroup_usage(&fixture.groups, sandbox.name, &usage));
    assert_in_range(usage.memory_bytes, 1, 20u << 20);
    finish(fd, &run);
    assert_int_equal(run.total[0], 30000000);
    destroy(&sandbox);
}

TEST(what_is_written_without_a_reader_is_kept_in_part)
{
    static struct weir_inside_message message;
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    int fd = begin(&sandbox, WEIR_INSIDE_DETACH, 0,
                   "head -c 3000000 /dev/zero | tr '\\0' x; echo last; echo done > /tmp/done");
    hear(fd, &message);
    assert_int_equal(message.head.kind, WEIR_INSIDE_STARTED);
    uint32_t number = message.head.number;
    close(fd);
    do { /* it needs no reader to go on */
        run_inside(&sandbox, "cat /tmp/done", &run);
    } while (run.status != 0);
    fd = connect_control(&sandbox);
    tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_ATTACH, .number = number}, NULL, 0);
    hear(fd, &message);
    assert_int_equal(message.head.kind, WEIR_INSIDE_STARTED);
    assert_int_not_equal(hear(fd, &message), -1);
    assert_int_equal(message.head.kind, WEIR_INSIDE_OUTPUT);
    assert_int_equal(message.head.offset, 3000005 - WEIR_INSIDE_OUTPUT_BYTES);
    size_t bytes = strlen(message.data);
    finish(fd, &run);
    assert_int_equal(bytes + run.total[0], WEIR_INSIDE_OUTPUT_BYTES);
    assert_int_equal(run.status, 0);
    destroy(&sandbox);
}

TEST(more_execs_than_may_run_are_refused)
{
    struct sandbox sandbox;
    struct run run;
    int fds[WEIR_INSIDE_EXECS_MAX];
    int refused = 0;
    static struct weir_inside_message message;
    make(&sandbox);
    for (int i = 0; i < WEIR_INSIDE_EXECS_MAX; i++) {
        fds[i] = begin(&sandbox, 0, 0, "exec sleep 1000");
        hear(fds[i], &message);
        refused += message.head.kind == WEIR_INSIDE_ERROR;
    }
    assert_true(refused > 0); /* the bound of processes comes first here */
    run_inside(&sandbox, "echo", &run);
    assert_int_equal(run.error, EAGAIN);
    for (int i = 0; i < WEIR_INSIDE_EXECS_MAX; i++) {
        close(fds[i]); /* which ends them */
    }
    do {
        run_inside(&sandbox, "echo", &run);
    } while (run.error == EAGAIN);
    assert_int_equal(run.error, 0);
    destroy(&sandbox);
}

/* ---- execs ---- */

TEST(input_goes_in_and_its_end)
{
    struct sandbox sandbox;
    struct run run;
    static char block[WEIR_INSIDE_DATA_BYTES];
    memset(block, 'y', sizeof block);
    make(&sandbox);
    int fd = begin(&sandbox, WEIR_INSIDE_WITH_STDIN, 0, "exec wc -c");
    for (int i = 0; i < 64; i++) {
        tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_STDIN}, block, sizeof block);
    }
    tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_STDIN_END}, NULL, 0);
    finish(fd, &run);
    assert_string_equal(run.out[0], "2097152\n");
    destroy(&sandbox);
}

TEST(a_program_ends_by_signal_by_time_and_with_its_connection)
{
    static struct weir_inside_message message;
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    int fd = begin(&sandbox, 0, 0, "exec sleep 1000");
    tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_SIGNAL, .value = SIGTERM}, NULL, 0);
    finish(fd, &run);
    assert_int_equal(WTERMSIG(run.status), SIGTERM);

    finish(begin(&sandbox, 0, 20, "exec sleep 1000"), &run);
    assert_int_equal(WTERMSIG(run.status), SIGKILL);

    fd = begin(&sandbox, 0, 0, "exec sleep 1000");
    hear(fd, &message);
    close(fd);
    do {
        run_inside(&sandbox, "ps | busybox grep -c 'sleep [1]000'", &run);
    } while (strcmp(run.out[0], "0\n") != 0);
    destroy(&sandbox);
}

TEST(nonsense_from_outside_is_refused)
{
    static struct weir_inside_message message;
    struct sandbox sandbox;
    struct run run;
    make(&sandbox);
    finish(begin(&sandbox, 0, 0, "exec /no/such"), &run);
    assert_int_equal(WEXITSTATUS(run.status), 127);
    static const struct {
        const char *data;
        size_t bytes;
        uint64_t arguments;
    } wrong[] = {{"", 0, 1},     {"a", 1, 1},          {"a", 2, 1},    {"a\0/", 4, 0},
                 {"a\0/", 4, 2}, {"a\0/", 4, 1000000}, {"a\0/", 3, 1}, {"a\0/", 4, UINT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int fd = connect_control(&sandbox);
        tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_EXEC, .second = wrong[i].arguments},
             wrong[i].data, wrong[i].bytes);
        finish(fd, &run);
        assert_int_equal(run.error, EINVAL);
    }
    for (uint32_t kind = 0; kind < 40; kind++) {
        int fd = connect_control(&sandbox);
        if (kind == WEIR_INSIDE_STOP || kind == WEIR_INSIDE_WATCH) {
            close(fd);
            continue;
        }
        tell(fd, &(struct weir_inside_head){.kind = kind}, "x", 1);
        hear(fd, &message);
        close(fd);
    }
    expect_says(&sandbox, "echo there", "there\n");
    destroy(&sandbox);
}

/* ---- the server, and connections to it ---- */

static int receive_descriptor(int fd)
{
    struct weir_inside_head head;
    struct iovec part = {&head, sizeof head};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    int descriptor = -1;
    assert_true(recvmsg(fd, &message, MSG_CMSG_CLOEXEC) > 0);
    if (head.kind == WEIR_INSIDE_DIALED) {
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    }
    close(fd);
    return descriptor;
}

TEST(a_port_inside_can_be_reached)
{
    char text[64] = "";
    struct sandbox sandbox;
    char *const argv[] = {(char[]){"nc"},   (char[]){"-ll"},   (char[]){"-p"},
                          (char[]){"8080"}, (char[]){"-e"},    (char[]){"echo"},
                          (char[]){"a"},    (char[]){"reply"}, NULL};
    make_with(&sandbox, argv);
    ssize_t bytes = 0;
    uint64_t until_ns = weir_clock_ns() + PATIENCE_MS * UINT64_C(1000000);
    while (bytes <= 0) { /* until it listens */
        assert_true(weir_clock_ns() < until_ns);
        int fd = connect_control(&sandbox);
        tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_DIAL, .value = 8080}, NULL, 0);
        int port = receive_descriptor(fd);
        if (port != -1) {
            struct pollfd readable = {.fd = port, .events = POLLIN};
            poll(&readable, 1, 2000);
            bytes = recv(port, text, sizeof text - 1, MSG_DONTWAIT);
            close(port);
        }
    }
    assert_string_equal(text, "a reply\n");
    int fd = connect_control(&sandbox);
    tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_DIAL}, "/run/weir/none", 14);
    assert_int_equal(receive_descriptor(fd), -1);
    destroy(&sandbox);
}

TEST(the_end_of_the_server_is_told)
{
    static struct weir_inside_message message;
    struct sandbox sandbox;
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"exit 7"}, NULL};
    make_with(&sandbox, argv);
    hear(sandbox.watch, &message);
    assert_int_equal(message.head.kind, WEIR_INSIDE_ENDED);
    assert_int_equal(WEXITSTATUS(message.head.value), 7);
    destroy(&sandbox);
}

/* ---- lives and deaths ---- */

TEST(a_frozen_sandbox_goes_on_when_it_is_thawed)
{
    struct sandbox sandbox;
    make(&sandbox);
    assert_true(weir_cgroup_freeze(&fixture.groups, sandbox.name, true));
    while (!weir_cgroup_frozen(&fixture.groups, sandbox.name)) {
        poll(NULL, 0, 1);
    }
    assert_true(weir_cgroup_freeze(&fixture.groups, sandbox.name, false));
    expect_says(&sandbox, "echo there", "there\n");
    assert_true(weir_cgroup_freeze(&fixture.groups, sandbox.name, true));
    destroy(&sandbox); /* also while it is frozen */
}

TEST(a_sandbox_outlives_the_maker_and_is_found_again)
{
    struct sandbox sandbox;
    struct run run;
    static struct weir_inside_message message;
    make(&sandbox);
    int fd = begin(&sandbox, WEIR_INSIDE_DETACH, 0, "echo before; sleep 0.2; echo after");
    hear(fd, &message);
    uint32_t number = message.head.number;
    close(fd);
    close(sandbox.watch);
    weir_maker_destroy(fixture.maker); /* as when Weir ends */
    fixture.maker = weir_maker_create(&fixture.groups, &fixture.filter);
    assert_non_null(fixture.maker);
    sandbox.watch = connect_control(&sandbox);
    fd = connect_control(&sandbox);
    tell(fd, &(struct weir_inside_head){.kind = WEIR_INSIDE_ATTACH, .number = number}, NULL, 0);
    finish(fd, &run);
    assert_string_equal(run.out[0], "before\nafter\n");
    destroy(&sandbox);
}

TEST(a_maker_that_was_killed_is_replaced)
{
    struct sandbox sandbox;
    run_shell("kill -9 $(pgrep -P %d -x weir-maker)", (int)getpid());
    make(&sandbox);
    expect_says(&sandbox, "echo there", "there\n");
    destroy(&sandbox);
}

TEST(what_cannot_be_made_says_which_step_failed)
{
    static struct weir_inside_message message;
    static char *const none[] = {NULL};
    char step[64];
    struct sandbox sandbox;
    struct weir_maker_order order = order_of(&sandbox, none);
    order.root = "/no/such/folder";
    assert_int_equal(weir_maker_make(fixture.maker, &order, step), 0);
    sandbox.watch = connect_control(&sandbox);
    tell(sandbox.watch, &(struct weir_inside_head){.kind = WEIR_INSIDE_WATCH}, NULL, 0);
    hear(sandbox.watch, &message);
    assert_int_equal(message.head.kind, WEIR_INSIDE_FAILED);
    assert_string_equal(message.data, "open the folder of the root");
    assert_int_equal(message.head.value, ENOENT);
    assert_int_equal(hear(sandbox.watch, &message), -1);
    destroy(&sandbox);

    order = order_of(&sandbox, none);
    order.folder = "/no/such/folder";
    assert_int_equal(weir_maker_make(fixture.maker, &order, step), ENOENT);
    assert_string_equal(step, "listen on the control socket");
    sandbox.watch = -1;
    destroy(&sandbox);
}

static int found_count;

static void count_found(void *context, const char *name)
{
    found_count += strcmp(context, name) == 0;
}

TEST(groups_are_listed_until_they_are_removed)
{
    struct sandbox sandbox;
    make(&sandbox);
    found_count = 0;
    weir_cgroups_list(&fixture.groups, count_found, sandbox.name);
    assert_true(found_count >= 1);
    destroy(&sandbox);
    found_count = 0;
    weir_cgroups_list(&fixture.groups, count_found, sandbox.name);
    assert_int_equal(found_count, 0);
    assert_true(weir_cgroup_kill(&fixture.groups, sandbox.name)); /* again is no error */
    assert_true(weir_cgroup_remove(&fixture.groups, sandbox.name));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_says_what_it_has_to_and_how_it_ended),
        cmocka_unit_test(programs_have_a_user_without_rights),
        cmocka_unit_test(programs_see_only_their_sandbox),
        cmocka_unit_test(programs_write_in_their_own_root_alone),
        cmocka_unit_test(what_programs_may_not_do_fails),
        cmocka_unit_test(process_one_is_beyond_reach),
        cmocka_unit_test(there_is_no_network_but_loopback),
        cmocka_unit_test(memory_ends_the_program_and_not_the_sandbox),
        cmocka_unit_test(processes_and_disk_are_bounded),
        cmocka_unit_test(a_bomb_of_forks_leaves_the_sandbox_removable),
        cmocka_unit_test(a_slow_reader_slows_the_program_down),
        cmocka_unit_test(what_is_written_without_a_reader_is_kept_in_part),
        cmocka_unit_test(more_execs_than_may_run_are_refused),
        cmocka_unit_test(input_goes_in_and_its_end),
        cmocka_unit_test(a_program_ends_by_signal_by_time_and_with_its_connection),
        cmocka_unit_test(nonsense_from_outside_is_refused),
        cmocka_unit_test(a_port_inside_can_be_reached),
        cmocka_unit_test(the_end_of_the_server_is_told),
        cmocka_unit_test(a_frozen_sandbox_goes_on_when_it_is_thawed),
        cmocka_unit_test(a_sandbox_outlives_the_maker_and_is_found_again),
        cmocka_unit_test(a_maker_that_was_killed_is_replaced),
        cmocka_unit_test(what_cannot_be_made_says_which_step_failed),
        cmocka_unit_test(groups_are_listed_until_they_are_removed),
    };
    weir_maker_main(argc, argv);
    return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
