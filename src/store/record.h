/* record.h - jobs as rows of the database, and as parcels of memory that a caller receives. */
#ifndef WEIR_STORE_RECORD_H
#define WEIR_STORE_RECORD_H

#include "store/inside.h"

/* Bodies up to this size are stored in the row of their job. A page is written as a whole, so a
 * short body in it costs nothing; longer ones would fill many pages with few jobs. */
#define WEIR_ROW_BODY_BYTES_MAX 1200

/* Whether a body has a row of its own. */
static inline bool weir_body_beside(const struct weir_job_bytes *body)
{
    return body->file == 0 && body->count > WEIR_ROW_BODY_BYTES_MAX;
}

/* The queue of damaged jobs whose own queue is not known. */
#define WEIR_RECORD_QUEUE_DAMAGED "damaged"

struct weir_record {
    struct weir_job_row row;
    uint64_t log_bytes;
    int64_t keep_ms;
    bool has_results; /* it has a row in `results` */
    bool identified;  /* number, id, queue, tenant and digest are valid, also in a damaged row */
    char damaged_id[32];
};

/* Reads the present row of a statement that asks for WEIR_JOB_COLUMNS. Its bytes are valid until
 * the statement is stepped or reset. False: the row is damaged, because its checksum does not match
 * or a value is out of range. Then only the number and what `identified` covers may be used. */
WEIR_MUST_CHECK bool weir_record_read(const struct weir_database *database, sqlite3_stmt *statement,
                                      struct weir_record *record);

/* The checksum of a job's row as `record` has it. */
uint64_t weir_record_sum(const struct weir_record *record);

/* Checksums of rows of `bodies`, `results` and `remembered`. */
uint64_t weir_body_sum(uint64_t number, struct weir_slice bytes);
uint64_t weir_result_sum(uint64_t number, struct weir_slice result, struct weir_slice log);

/* Whether the checksum in that column of the present row is `sum`, or may be absent. */
bool weir_sum_matches(const struct weir_database *database, sqlite3_stmt *statement, int index,
                      uint64_t number, uint64_t sum);

enum weir_record_found {
    WEIR_RECORD_NONE, /* there is none, or the database has failed */
    WEIR_RECORD_WHOLE,
    WEIR_RECORD_DAMAGED
};

/* Reads the job of a number. If there is one, WEIR_SQL_GET_JOB must be reset after use. */
WEIR_MUST_CHECK enum weir_record_found weir_record_get(struct weir_database *database,
                                                       uint64_t number, struct weir_record *record);

/* Turns a damaged row into a dead letter that says so, both on record and in `record`. Without its
 * identity the job is called damaged-NUMBER, in the queue "damaged". False: the database has
 * failed. */
WEIR_MUST_CHECK bool weir_record_condemn(struct weir_database *database,
                                         struct weir_record *record);

/* The rest of a job that is forgotten but for its id. */
struct weir_remembered {
    uint64_t number;
    struct weir_slice id;
    struct weir_slice tenant;
    uint8_t digest[WEIR_JOB_DIGEST_BYTES];
    enum weir_job_state state;
    int64_t ended_ms;
    int64_t forget_ms;
};

uint64_t weir_remembered_sum(const struct weir_remembered *remembered);

/* Reads the present row of a statement that asks for WEIR_REMEMBERED_COLUMNS. False: it is
 * damaged, and only the number may be used. */
WEIR_MUST_CHECK bool weir_remembered_read(const struct weir_database *database,
                                          sqlite3_stmt *statement,
                                          struct weir_remembered *remembered);

/* The result of looking up an id: its job, or its remembered rest. */
struct weir_known {
    uint64_t number; /* 0: the id is unknown */
    enum weir_job_state state;
    uint8_t digest[WEIR_JOB_DIGEST_BYTES];
    size_t tenant_bytes;
    char tenant[WEIR_NAME_BYTES_MAX];
};

WEIR_MUST_CHECK bool weir_record_find(struct weir_store *store, struct weir_slice id, uint64_t hash,
                                      struct weir_known *known);

/* One piece of memory that the caller receives: rows first, then their bytes. Until it is finished
 * the bytes' addresses are offsets. */
struct weir_parcel {
    char *memory;
    size_t used;
    size_t size;
};

/* False if there is no memory. */
WEIR_MUST_CHECK bool weir_parcel_init(struct weir_parcel *parcel, size_t head_bytes,
                                      size_t size_bytes);
WEIR_MUST_CHECK bool weir_parcel_add(struct weir_parcel *parcel, struct weir_slice *slice);
WEIR_MUST_CHECK bool weir_parcel_add_row(struct weir_parcel *parcel, struct weir_job_row *row);
void weir_parcel_finish_row(const struct weir_parcel *parcel, struct weir_job_row *row);

#endif
