/* record.h - jobs as rows: how they are read, and put into memory that is given away. */
#ifndef WEIR_STORE_RECORD_H
#define WEIR_STORE_RECORD_H

#include "store/inside.h"

/* Bodies up to this size lie in the row of their job. A page is written as a whole, so that what is
 * in it besides costs nothing; longer ones would make many pages of few jobs. */
#define WEIR_ROW_BODY_BYTES_MAX 1200

/* Whether a body has a row of its own. */
static inline bool weir_body_beside(const struct weir_job_bytes *body)
{
    return body->file == 0 && body->count > WEIR_ROW_BODY_BYTES_MAX;
}

struct weir_record {
    struct weir_job_row row;
    uint64_t log_bytes;
    bool has_results; /* there is a row of `results` with it */
};

/* The present row of a statement that asks for WEIR_JOB_COLUMNS. Its bytes are good until the
 * statement goes on. False if it is not one that we have written: then the database is damaged. */
WEIR_MUST_CHECK bool weir_record_read(struct weir_database *database, sqlite3_stmt *statement,
                                      struct weir_record *record);

/* The job of a number; if it is found, WEIR_SQL_GET_JOB is to be reset after use. False: there is
 * none, or the database has failed. */
WEIR_MUST_CHECK bool weir_record_get(struct weir_database *database, uint64_t number,
                                     struct weir_record *record);

/* What is known of an id: its job, or what is remembered of it. */
struct weir_known {
    uint64_t number; /* 0: nothing */
    enum weir_job_state state;
    uint8_t digest[WEIR_JOB_DIGEST_BYTES];
    size_t tenant_bytes;
    char tenant[WEIR_NAME_BYTES_MAX];
};

WEIR_MUST_CHECK bool weir_record_find(struct weir_store *store, struct weir_slice id, uint64_t hash,
                                      struct weir_known *known);

/* Memory that is given away: rows first, then their bytes, in one piece. Until it is finished the
 * bytes' addresses are offsets. */
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
