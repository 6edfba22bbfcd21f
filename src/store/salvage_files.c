/* salvage_files.c - the files of a repair: the damaged database and its journal, the copy of both
 * that SQLite may write into, and the new database, which takes the damaged one's place. The main
 * thread runs it at the start. */
#define _GNU_SOURCE
#include "store/salvage_files.h"

#include "base/clock.h"
#include "store/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void weir_salvage_find_paths(struct weir_salvage_paths *paths, const char *path)
{
    struct stat about;
    snprintf(paths->path, sizeof paths->path, "%s", path);
    snprintf(paths->journal, sizeof paths->journal, "%s-wal", path);
    snprintf(paths->work, sizeof paths->work, "%s.copy", path);
    snprintf(paths->work_journal, sizeof paths->work_journal, "%s.copy-wal", path);
    snprintf(paths->fresh, sizeof paths->fresh, "%s.new", path);
    paths->has_journal = stat(paths->journal, &about) == 0 && about.st_size > 0;
    paths->source = paths->has_journal ? paths->work : paths->path;
}

/* False, with errno. */
static bool copy_file(const char *path, const char *copy_path)
{
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = from < 0 ? -1 : open(copy_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = to >= 0 && weir_file_copy(from, to);
    weir_file_close(&to);
    weir_file_close(&from);
    return good;
}

bool weir_salvage_make_work(const struct weir_salvage_paths *paths, char *error, size_t error_bytes)
{
    const char *failed = NULL;
    if (!paths->has_journal) {
        return true;
    }
    if (!copy_file(paths->path, paths->work)) {
        failed = paths->work;
    } else if (!copy_file(paths->journal, paths->work_journal)) {
        failed = paths->work_journal;
    }
    if (failed != NULL) {
        snprintf(error, error_bytes,
                 "%s is damaged, and making the working copy %s failed: %s. Free disk space if it"
                 " is full, then start Weir again.",
                 paths->path, failed, strerror(errno));
    }
    return failed == NULL;
}

void weir_salvage_remove_work(const struct weir_salvage_paths *paths)
{
    (void)unlink(paths->fresh);
    (void)unlink(paths->work);
    (void)unlink(paths->work_journal);
}

/* Puts the working copy, to which the journal was applied, where the damaged database was, and the
 * journal aside: beside the new database, it would be applied to that. After each step the database
 * and its journal together are what they were before. */
static bool set_journal_aside(const struct weir_salvage_paths *paths, const char *aside)
{
    char aside_journal[PATH_MAX + 80];
    snprintf(aside_journal, sizeof aside_journal, "%s-wal", aside);
    return rename(paths->work, paths->path) == 0 && weir_file_sync_folder_of(paths->path) &&
           rename(paths->journal, aside_journal) == 0 && weir_file_sync_folder_of(paths->path);
}

bool weir_salvage_put_in_place(const struct weir_salvage_paths *paths, char *aside,
                               size_t aside_bytes)
{
    snprintf(aside, aside_bytes, "%s.damaged-%" PRId64, paths->path, weir_wall_ms());
    return weir_file_sync(paths->fresh) && (!paths->has_journal || weir_file_sync(paths->work)) &&
           (link(paths->path, aside) == 0 || rename(paths->path, aside) == 0) &&
           (!paths->has_journal || set_journal_aside(paths, aside)) &&
           rename(paths->fresh, paths->path) == 0;
}
