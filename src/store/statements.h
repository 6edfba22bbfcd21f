/* statements.h - all SQL statements, except for settings.
 *
 * A list of WEIR_SQL(name, text). Statements are prepared once, when the database is opened. */

#define WEIR_JOB_COLUMNS                                                                        \
    "number, state, attempts, kills, boot, counter, started_ms, ended_ms, next_ms,"             \
    " result_status, result_bytes, result_file, log_bytes, priority, attempts_max, timeout_ms," \
    " cost_ms, created_ms, due_ms, dated, body_bytes, body_file, id, queue, tenant, key, type," \
    " digest, error, result_type, keep_ms, result_sum, checksum"

#define WEIR_REMEMBERED_COLUMNS "number, id, digest, state, tenant, ended_ms, forget_ms, checksum"

/* The statements that pack the rows of a table: pack.c. */
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
    WEIR_SQL(MEND_META, "INSERT OR IGNORE INTO meta VALUES('boot', 0), ('forgotten', 0),"          \
                        " ('probe', 0), ('unchecked', 281474976710655)")                           \
    WEIR_SQL(INSERT_JOB,                                                                           \
             "INSERT INTO jobs(" WEIR_JOB_COLUMNS ", body)"                                        \
             " VALUES(?1, 0, 0, 0, 0, 0, 0, 0, ?2, 0, 0, 0, 0, ?3, ?4, ?5, ?6, ?7, ?2, ?8, ?9,"    \
             " ?10, ?11, ?12, ?13, ?14, ?15, ?16, NULL, NULL, 0, 0, ?18, ?17)")                    \
    WEIR_SQL(INSERT_BODY, "INSERT INTO bodies(number, bytes, checksum) VALUES(?1, ?2, ?3)")        \
    WEIR_SQL(GET_BODY, "SELECT coalesce(body, (SELECT bytes FROM bodies WHERE number = ?1)) FROM " \
                       "jobs WHERE number = ?1")                                                   \
    WEIR_SQL(DELETE_BODY, "DELETE FROM bodies WHERE number = ?1")                                  \
    WEIR_SQL(SET_RESULT, "INSERT OR REPLACE INTO results(number, result, log, checksum)"           \
                         " VALUES(?1, ?2, ?3, ?4)")                                                \
    WEIR_SQL(GET_RESULT, "SELECT result, log, checksum FROM results WHERE number = ?1")            \
    WEIR_SQL(DELETE_RESULT, "DELETE FROM results WHERE number = ?1")                               \
    WEIR_SQL(GET_JOB, "SELECT " WEIR_JOB_COLUMNS " FROM jobs WHERE number = ?1")                   \
    WEIR_SQL(GET_JOBS, "SELECT " WEIR_JOB_COLUMNS " FROM jobs WHERE number > ?1 ORDER BY number")  \
    WEIR_SQL(DELETE_JOB, "DELETE FROM jobs WHERE number = ?1")                                     \
    WEIR_SQL(TAKE_JOB, "UPDATE jobs SET state = 1, attempts = ?2, boot = ?3, counter = ?4,"        \
                       " started_ms = ?5, checksum = ?6 WHERE number = ?1")                        \
    WEIR_SQL(SETTLE_JOB,                                                                           \
             "UPDATE jobs SET state = ?2, attempts = ?3, boot = ?4, counter = ?5, kills = ?6,"     \
             " started_ms = ?7, ended_ms = ?8, next_ms = ?9, keep_ms = ?10, error = ?11,"          \
             " result_status = ?12, result_type = ?13, result_bytes = ?14, result_file = ?15,"     \
             " log_bytes = ?16, result_sum = ?17, checksum = ?18 WHERE number = ?1")               \
    WEIR_SQL(REDRIVE_JOB,                                                                          \
             "UPDATE jobs SET state = 0, attempts = 0, kills = 0, ended_ms = 0, next_ms = 0,"      \
             " checksum = ?2 WHERE number = ?1")                                                   \
    WEIR_SQL(CONDEMN_JOB,                                                                          \
             "UPDATE jobs SET state = 3, attempts = 0, kills = 0, boot = 0, counter = 0,"          \
             " started_ms = 0, ended_ms = ?2, next_ms = 0, result_status = 0, result_bytes = 0,"   \
             " result_file = 0, log_bytes = 0, priority = ?3, attempts_max = 1, timeout_ms = 0,"   \
             " cost_ms = 0, created_ms = 0, due_ms = 0, dated = 0, body_bytes = 0, body_file = 0," \
             " id = ?4, queue = ?5, tenant = ?6, key = NULL, type = NULL, digest = ?7,"            \
             " error = ?8, result_type = NULL, keep_ms = 0, result_sum = 0, checksum = ?9"         \
             " WHERE number = ?1")                                                                 \
    WEIR_SQL(REMEMBER,                                                                             \
             "INSERT INTO remembered(number, id, digest, state, tenant, ended_ms, forget_ms,"      \
             " checksum) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                  \
    WEIR_SQL(GET_REMEMBERED,                                                                       \
             "SELECT " WEIR_REMEMBERED_COLUMNS " FROM remembered WHERE number = ?1")               \
    WEIR_SQL(GET_ALL_REMEMBERED,                                                                   \
             "SELECT " WEIR_REMEMBERED_COLUMNS " FROM remembered ORDER BY number")                 \
    WEIR_SQL(FORGET, "DELETE FROM remembered WHERE number = ?1")                                   \
    WEIR_SQL(PLAN, "INSERT OR IGNORE INTO agenda(at_ms, number) VALUES(?1, ?2)")                   \
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
