/* statements.h - everything that is ever said to the database, but for its settings.
 *
 * A list of WEIR_SQL(name, text). Statements are prepared once, when the database is opened. */

#define WEIR_JOB_COLUMNS                                                                        \
    "number, state, attempts, kills, boot, counter, started_ms, ended_ms, next_ms,"             \
    " result_status, result_bytes, result_file, log_bytes, priority, attempts_max, timeout_ms," \
    " cost_ms, created_ms, due_ms, dated, body_bytes, body_file, id, queue, tenant, key, type," \
    " digest, error, result_type"

/* How the rows of a table are moved closer together: pack.c. */
#define WEIR_PACK_STATEMENTS(NAME, name)                                                        \
    WEIR_SQL(PACK_##NAME, "INSERT INTO pack_" name " SELECT * FROM " name                       \
                          " WHERE number > ?1 ORDER BY number LIMIT ?2")                        \
    WEIR_SQL(PACKED_##NAME, "SELECT max(number), count(*) FROM pack_" name)                     \
    WEIR_SQL(CLEAR_##NAME, "DELETE FROM " name " WHERE number > ?1 AND number <= ?2")           \
    WEIR_SQL(UNPACK_##NAME, "INSERT INTO " name " SELECT * FROM pack_" name " ORDER BY number") \
    WEIR_SQL(EMPTY_##NAME, "DELETE FROM pack_" name)

#define WEIR_STATEMENTS                                                                            \
    WEIR_SQL(BEGIN, "BEGIN IMMEDIATE")                                                             \
    WEIR_SQL(COMMIT, "COMMIT")                                                                     \
    WEIR_SQL(ROLLBACK, "ROLLBACK")                                                                 \
    WEIR_SQL(SAVE, "SAVEPOINT op")                                                                 \
    WEIR_SQL(REVERT, "ROLLBACK TO op")                                                             \
    WEIR_SQL(RELEASE, "RELEASE op")                                                                \
    WEIR_SQL(GET_META, "SELECT value FROM meta WHERE name = ?1")                                   \
    WEIR_SQL(RAISE_META, "UPDATE meta SET value = max(value, ?2) WHERE name = ?1")                 \
    WEIR_SQL(INSERT_JOB,                                                                           \
             "INSERT INTO jobs(" WEIR_JOB_COLUMNS ", keep_ms, body)"                               \
             " VALUES(?1, 0, 0, 0, 0, 0, 0, 0, ?2, 0, 0, 0, 0, ?3, ?4, ?5, ?6, ?7, ?2, ?8, ?9,"    \
             " ?10, ?11, ?12, ?13, ?14, ?15, ?16, NULL, NULL, 0, ?17)")                            \
    WEIR_SQL(INSERT_BODY, "INSERT INTO bodies(number, bytes) VALUES(?1, ?2)")                      \
    WEIR_SQL(GET_BODY, "SELECT coalesce(body, (SELECT bytes FROM bodies WHERE number = ?1)) FROM " \
                       "jobs WHERE number = ?1")                                                   \
    WEIR_SQL(DELETE_BODY, "DELETE FROM bodies WHERE number = ?1")                                  \
    WEIR_SQL(SET_RESULT, "INSERT OR REPLACE INTO results(number, result, log) VALUES(?1, ?2, ?3)") \
    WEIR_SQL(GET_RESULT, "SELECT result, log FROM results WHERE number = ?1")                      \
    WEIR_SQL(DELETE_RESULT, "DELETE FROM results WHERE number = ?1")                               \
    WEIR_SQL(GET_JOB, "SELECT " WEIR_JOB_COLUMNS " FROM jobs WHERE number = ?1")                   \
    WEIR_SQL(GET_JOBS, "SELECT " WEIR_JOB_COLUMNS " FROM jobs WHERE number > ?1 ORDER BY number")  \
    WEIR_SQL(GET_ID, "SELECT id, digest, state, tenant FROM jobs WHERE number = ?1")               \
    WEIR_SQL(DELETE_JOB, "DELETE FROM jobs WHERE number = ?1")                                     \
    WEIR_SQL(TAKE_JOB, "UPDATE jobs SET state = 1, attempts = ?2, boot = ?3, counter = ?4,"        \
                       " started_ms = ?5 WHERE number = ?1")                                       \
    WEIR_SQL(SETTLE_JOB,                                                                           \
             "UPDATE jobs SET state = ?2, attempts = ?3, boot = ?4, counter = ?5, kills = ?6,"     \
             " started_ms = ?7, ended_ms = ?8, next_ms = ?9, keep_ms = ?10, error = ?11,"          \
             " result_status = ?12, result_type = ?13, result_bytes = ?14, result_file = ?15,"     \
             " log_bytes = ?16 WHERE number = ?1")                                                 \
    WEIR_SQL(REDRIVE_JOB,                                                                          \
             "UPDATE jobs SET state = 0, attempts = 0, kills = 0, ended_ms = 0, next_ms = 0"       \
             " WHERE number = ?1")                                                                 \
    WEIR_SQL(REMEMBER,                                                                             \
             "INSERT INTO remembered(number, id, digest, state, tenant, ended_ms, forget_ms)"      \
             " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                                \
    WEIR_SQL(GET_REMEMBERED,                                                                       \
             "SELECT id, digest, state, tenant, ended_ms FROM remembered WHERE number = ?1")       \
    WEIR_SQL(GET_ALL_REMEMBERED, "SELECT number, id FROM remembered")                              \
    WEIR_SQL(FORGET, "DELETE FROM remembered WHERE number = ?1")                                   \
    WEIR_SQL(PLAN, "INSERT INTO agenda(at_ms, number) VALUES(?1, ?2)")                             \
    WEIR_SQL(GET_PLANNED,                                                                          \
             "SELECT at_ms, number FROM agenda WHERE at_ms <= ?1 ORDER BY at_ms, number LIMIT 1")  \
    WEIR_SQL(DELETE_PLANNED, "DELETE FROM agenda WHERE at_ms = ?1 AND number = ?2")                \
    WEIR_SQL(GET_PAGES, "PRAGMA page_count")                                                       \
    WEIR_SQL(GET_FREE_PAGES, "PRAGMA freelist_count")                                              \
    WEIR_SQL(VACUUM, "PRAGMA incremental_vacuum(64)")                                              \
    WEIR_PACK_STATEMENTS(JOBS, "jobs")                                                             \
    WEIR_PACK_STATEMENTS(BODIES, "bodies")                                                         \
    WEIR_PACK_STATEMENTS(RESULTS, "results")                                                       \
    WEIR_PACK_STATEMENTS(REMEMBERED, "remembered")
