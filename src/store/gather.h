/* gather.h - a layer between SQLite and its files that joins small writes.
 *
 * SQLite writes each page of a commit to the journal by two calls, its head and its bytes, one
 * behind the other, and then syncs. This layer holds the bytes back until another call needs the
 * journal, and writes them by one call: a commit of a hundred jobs takes one instead of some three
 * hundred. It joins neighbouring pages, too, when the journal is copied into the database. Weir
 * promises nothing before the sync, so no promise depends on held bytes; the sync reports a write
 * that has failed, and SQLite then fails the commit or the copying. */
#ifndef WEIR_STORE_GATHER_H
#define WEIR_STORE_GATHER_H

struct sqlite3;

/* Opens a database as sqlite3_open_v2() does, over whatever is SQLite's default layer now. Not
 * thread-safe: one call at a time in the process. */
int weir_gather_open(const char *path, struct sqlite3 **handle, int flags);

#endif
