/* exchange_steps.h - the steps of an exchange, between the files that together make it:
 *
 *   routing.c     where a request goes, on whose behalf, and into which line
 *   body_start.c  the start of a body, read before the request stands in line
 *   whole_body.c  or all of it, where a filter has to know it
 *   body_spool.c  which is in a file if it is long
 *   filter.c      the filters of its route, at each step
 *   exchange.c    its states, its ends, answers of our own, and what gate and client tell it
 *   attempt.c     a server: finding one, connecting, and losing it
 *   lane_failover.c  another lane, if none of the lane's servers can be reached
 *   request.c     the request, on its way to the server
 *   reply.c       the reply, on its way to the client
 *
 * Filters call these steps as well (filter.h).
 *
 * Any step may end the exchange, after which its client is null; its memory stays until the end of
 * the turn. */
#ifndef WEIR_PROXY_EXCHANGE_STEPS_H
#define WEIR_PROXY_EXCHANGE_STEPS_H

#include "proxy/body_spool.h"
#include "proxy/exchange.h"

/* ---- routing.c ---- */

/* Stands in line for the key, or goes on at once where there is no gate. The tenant is the
 * exchange's. */
void weir_exchange_enter(struct weir_exchange *exchange, struct weir_slice key,
                         struct weir_request *request);

/* The model, which may be empty, is known: takes the route for it, where several differ by their
 * models, and sets what that changes of the facts: `key`, whose text is in `key_text`, `key_gap`
 * and `priority`. False if the exchange has been answered. */
WEIR_MUST_CHECK bool weir_exchange_choose_route(struct weir_exchange *exchange,
                                                struct weir_slice model,
                                                char key_text[WEIR_NAME_BYTES_MAX],
                                                struct weir_request_facts *facts);

/* Gives back the head that was kept for that, if there is one. */
void weir_exchange_drop_head(struct weir_exchange *exchange);

/* ---- body_start.c ---- */

/* Requires a body: enters the line, after the start of that has been read if it has to be. */
void weir_exchange_begin_start(struct weir_exchange *exchange, struct weir_slice key,
                               struct weir_request *request);

/* The client has sent more of it. */
void weir_exchange_read_start(struct weir_exchange *exchange);

/* Gives back what is kept meanwhile. */
void weir_exchange_drop_start(struct weir_exchange *exchange);

/* ---- whole_body.c ---- */

/* Up to so many bytes a body is kept in the client's buffer; a longer one goes to a file. */
#define WEIR_BODY_MEMORY_MAX (1024 * 1024)

/* Reads all of the body, which may be none, before the request stands in line, and has the filters
 * see it: they answer or enter the line when it is complete. */
void weir_exchange_begin_whole(struct weir_exchange *exchange, bool expects_continue);

/* The client has sent more of it, or a piece of it is on disk. */
void weir_exchange_read_whole(struct weir_exchange *exchange);

/* A body that is complete and in the client's buffer becomes so many bytes longer or shorter at
 * `end`; what follows it moves. Requires the room. */
void weir_exchange_resize_body(struct weir_exchange *exchange, size_t end, ptrdiff_t by);

/* The request goes on for good: its body is not needed any more. */
void weir_exchange_let_body_go(struct weir_exchange *exchange);

/* ---- filter.c ----
 *
 * Each has the exchange's filters do their part at one step, which filter.h describes. */

void weir_filters_arrived(struct weir_exchange *exchange, const struct weir_http1_head *head,
                          const char *data);
const char *weir_filters_object(const struct weir_exchange *exchange,
                                const struct weir_request_facts *facts);
bool weir_filters_begin(struct weir_exchange *exchange, const struct weir_request_facts *facts);
bool weir_filters_enter(struct weir_exchange *exchange, const struct weir_destination *where,
                        const struct weir_request *request);
bool weir_filters_leave(struct weir_exchange *exchange, enum weir_outcome outcome);
bool weir_filters_late(struct weir_exchange *exchange);
bool weir_filters_admitted(struct weir_exchange *exchange);
bool weir_filters_attempt(struct weir_exchange *exchange,
                          const struct weir_config_upstream *upstream);
void weir_filters_restart(struct weir_exchange *exchange);
enum weir_filter_head weir_filters_reply_head(struct weir_exchange *exchange,
                                              const struct weir_http1_head *head);
bool weir_filters_may_reply(struct weir_exchange *exchange);
enum weir_filter_data weir_filters_reply_data(struct weir_exchange *exchange,
                                              struct weir_slice bytes);
bool weir_filters_reply_end(struct weir_exchange *exchange);
bool weir_filters_timed_out(struct weir_exchange *exchange, bool expired);
void weir_filters_problem(struct weir_exchange *exchange, struct weir_problem *problem);
void weir_filters_settle(struct weir_exchange *exchange, struct weir_result *result);
void weir_filters_account(const struct weir_exchange *exchange,
                          struct weir_access_account *account);
bool weir_filters_keep(struct weir_exchange *exchange, const struct weir_result *result);
void weir_filters_end(struct weir_exchange *exchange);

bool weir_filters_body(struct weir_exchange *exchange, struct weir_slice bytes, bool last);
void weir_filters_body_read(struct weir_exchange *exchange);

/* False, and nothing happens, if none of them has that hook. */
bool weir_filters_enter_again(struct weir_exchange *exchange, const struct weir_request *request);

/* For heads and problems; the context is the exchange. */
bool weir_filters_hide(const void *context, const struct weir_http1_head *head,
                       const struct weir_http1_field *field);
void weir_filters_add_fields(const void *context, struct weir_head_writer *writer);
void weir_filters_add_members(const void *context, const struct weir_problem *problem,
                              struct weir_json *json);
bool weir_filters_replace(const void *context, const struct weir_problem *problem,
                          struct weir_json *json);

/* ---- exchange.c ---- */

/* Answers the exchange by a problem: of its own, or for a ticket that was not admitted. */
void weir_exchange_answer(struct weir_exchange *exchange, enum weir_problem_kind kind,
                          uint16_t status, const char *detail);
void weir_exchange_answer_problem(struct weir_exchange *exchange, struct weir_problem *problem);
void weir_exchange_refuse(struct weir_exchange *exchange);

/* Answers a request for the options of the server as a whole (RFC 9110, section 9.3.7). */
void weir_exchange_answer_options(struct weir_exchange *exchange);

/* An exchange as the owner of a permit. */
extern const struct weir_permit_owner weir_exchange_owner;

/* Changes its state; asserts that the move is one of docs/internals/proxy.md. */
void weir_exchange_move(struct weir_exchange *exchange, enum weir_exchange_state state);

/* The client cannot be served to the end: gives it up, which ends the exchange as well. */
void weir_exchange_abandon(struct weir_exchange *exchange, enum weir_abandon why);

/* The reply has been written; the client goes on. */
void weir_exchange_complete(struct weir_exchange *exchange);

/* The gate ticket goes back, if there is one. */
void weir_exchange_end_ticket(struct weir_exchange *exchange, enum weir_outcome outcome);

/* The ticket has left: no post to it is under way any more. */
void weir_exchange_ticket_back(struct weir_exchange *exchange);

/* Frees it at the end of the turn, once it is over and nothing to it is under way. */
void weir_exchange_bury_if_free(struct weir_exchange *exchange);

/* Answers for a ticket that ended in line, and for a request that is one too many of its flow. */
void weir_exchange_refuse_in_line(struct weir_exchange *exchange);
void weir_exchange_refuse_depth(struct weir_exchange *exchange);

/* Whether there is nothing to send until the client has sent more of its body; and whether there is
 * something that it has not read yet. */
bool weir_exchange_wants_body(const struct weir_exchange *exchange);
bool weir_exchange_wants_reader(const struct weir_exchange *exchange);

/* A client that others wait for has a limited time to go on. After each step, also when it is over.
 */
void weir_exchange_watch_client(struct weir_exchange *exchange);

/* Sends the client 100 Continue. False if it does not take that: then the exchange is over. */
WEIR_MUST_CHECK bool weir_exchange_send_continue(struct weir_exchange *exchange);

/* Weir does not read the client's body for now: the time until it does costs the client nothing. */
void weir_exchange_pause_body(struct weir_exchange *exchange);

/* ---- attempt.c ---- */

/* It has a permit, or needs none: goes to a server. */
void weir_exchange_admitted(struct weir_exchange *exchange);

const struct weir_config_upstream *weir_exchange_upstream(const struct weir_exchange *exchange);

/* Puts the text in place of so many bytes of the path as a server gets it; `behind` are those from
 * there to the end of the path. Before the head is ended for a server. False without room. */
WEIR_MUST_CHECK bool weir_exchange_replace_in_path(struct weir_exchange *exchange, size_t behind,
                                                   size_t bytes, struct weir_slice text);

/* How long the server has from now on, or WEIR_NEVER; the deadline may be sooner. */
void weir_exchange_set_timer(struct weir_exchange *exchange, uint64_t timeout_ns);

/* How long neither side may send anything. */
uint64_t weir_exchange_idle_ns(const struct weir_exchange *exchange);

/* Whether it has gone on for so long that others come first; then it is deferred. */
bool weir_exchange_had_turn(struct weir_exchange *exchange, uint32_t rounds);

/* Whether a server may get the request twice without doing more than once (RFC 9110, section
 * 9.2.2). */
bool weir_exchange_is_idempotent(enum weir_http_method method);

/* The server's part in the attempt is over: its connection is kept if nothing is left on it. */
void weir_exchange_leave_backend(struct weir_exchange *exchange);

/* Goes on in a later step of this turn or the next. */
void weir_exchange_defer(struct weir_exchange *exchange);

/* Goes on as far as both sides allow. Requires a server's connection. */
void weir_exchange_go_on(struct weir_exchange *exchange);

/* The connection broke before anything of a reply came: another attempt, or a 502. */
void weir_exchange_lose_backend(struct weir_exchange *exchange);

/* Which of the config's upstreams the lane that admitted it leads to. */
uint32_t weir_exchange_lane(const struct weir_exchange *exchange);

/* Answers that no server of the config's upstream can be reached, with the last error. */
void weir_exchange_answer_down(struct weir_exchange *exchange, uint32_t upstream);

/* Forgets what an attempt has done, for another one: to another server, by another lane, or later.
 * Requires that the server is gone and the client has nothing of its final reply. */
void weir_exchange_restart(struct weir_exchange *exchange);

/* The attempt ended so: gives the permit back, and has the request stand in line once more, as its
 * filter's enter_again() does, but not before that time. Requires that all of the request is kept,
 * and that the client has no part of an interim reply. */
void weir_exchange_retry(struct weir_exchange *exchange, uint64_t at_ns, enum weir_outcome outcome);

/* The pause before another attempt is over. */
void weir_exchange_resume(struct weir_exchange *exchange);

/* ---- lane_failover.c ---- */

/* The upstream of its lane cannot be reached, and nothing has been sent: it goes to another lane,
 * if one is open. False if it has to be answered. */
bool weir_exchange_fail_over_unreachable(struct weir_exchange *exchange);

/* A server has failed, or has refused with that status, and the client has heard nothing: the
 * request goes to a lane that it has not tried, if one is open and all of the request can be sent
 * once more. Its permit goes back with that outcome. False if the reply has to go on. */
bool weir_exchange_fail_over_refused(struct weir_exchange *exchange, enum weir_outcome outcome);

/* It has to wait in line. If every lane of its route is closed because no server of its upstream
 * can be reached, answers at once, with 502, instead of letting it wait for the first probe. */
bool weir_exchange_fail_fast(struct weir_exchange *exchange);

/* Whether its route has a lane that it has not tried. */
bool weir_exchange_has_untried_lane(const struct weir_exchange *exchange);

/* Whether a reply of that status is a reason to ask another lane. */
bool weir_exchange_status_fails(uint16_t status);

/* ---- request.c ---- */

/* What became of an attempt to read more of the request's body. */
enum weir_body_read {
    WEIR_BODY_READ_SOME,
    WEIR_BODY_READ_NOTHING, /* yet */
    WEIR_BODY_READ_NO_ROOM, /* there may be more, but no memory for it */
    WEIR_BODY_READ_OVER     /* the client has left, and the exchange is over */
};

/* Reads more of the request's body into the client's buffer, which is made so large first and keeps
 * `spare` bytes of room. */
enum weir_body_read weir_exchange_read_client(struct weir_exchange *exchange, uint32_t capacity,
                                              uint32_t spare);

/* The answer to a body that is too long, or whose head says so. */
#define WEIR_BODY_TOO_LONG \
    "The body is longer than the route's max_body. Send less, or have it raised."

/* Looks at what has come of the body; and the answer if there is something wrong with it. */
void weir_exchange_check_body(struct weir_exchange *exchange);
void weir_exchange_answer_body_fault(struct weir_exchange *exchange);

/* Sends what can be sent. False if the exchange took another way on it. */
bool weir_exchange_pump_request(struct weir_exchange *exchange);

/* ---- reply.c ---- */

/* Reads more from the server into its buffer. False if nothing came; `*got` says why. */
bool weir_exchange_read_backend(struct weir_exchange *exchange, ssize_t *got);

/* Reads heads until the final one. False if it is not there yet, or another way was taken. */
bool weir_exchange_read_head(struct weir_exchange *exchange);

/* Writes what is there to the client. True if all of it went. */
bool weir_exchange_write(struct weir_exchange *exchange);

/* Passes on what comes, until the reply's end. */
void weir_exchange_pump_reply(struct weir_exchange *exchange);

#endif
