#include "cli/permit.h"

static void put_text(json_t *wish, const char *name, const char *text)
{
    if (text != NULL) {
        json_t *value = json_string(text);
        /* A value that is not UTF-8 cannot be JSON: the API's complaint about a null names the
         * field. */
        json_object_set_new(wish, name, value == NULL ? json_null() : value);
    }
}

static void put_number(json_t *wish, const char *name, uint64_t number)
{
    if (number != WEIR_NEVER) {
        json_object_set_new(wish, name, json_integer((json_int_t)number));
    }
}

static void put_ms(json_t *wish, const char *name, uint64_t duration_ns)
{
    put_number(wish, name, duration_ns == WEIR_NEVER ? WEIR_NEVER : duration_ns / WEIR_NS_PER_MS);
}

/* The fields for the given flags; the command's table decides which flags exist. */
static json_t *make_params(const struct weir_options *options)
{
    json_t *wish = json_object();
    put_text(wish, "flow", options->flow);
    put_text(wish, "tenant", options->tenant);
    put_text(wish, "priority", options->priority);
    put_text(wish, "outcome", options->outcome);
    put_ms(wish, "timeout_ms", options->timeout_ns);
    put_ms(wish, "lease_ms", options->lease_ns);
    put_number(wish, "cost", options->cost);
    return wish;
}

int weir_permit_acquire(struct weir_api_client *client, const char *gate, const char *key,
                        bool hold)
{
    json_t *wish = make_params(client->options);
    if (hold) {
        json_object_set_new(wish, "hold", json_true());
    }
    return weir_api_client_wait(client, (struct weir_api_path){gate, key, "acquire"}, wish, hold);
}

int weir_permit_change(struct weir_api_client *client, const struct weir_command *command)
{
    const struct weir_options *options = client->options;
    const char *permit = options->words[2];
    if ((permit == NULL) == (options->flow == NULL)) {
        return weir_flags_complain(command, "give either the permit or --flow");
    }
    json_t *wish = make_params(options);
    put_text(wish, "permit", permit);
    struct weir_api_path path = {options->words[0], options->words[1], command->name};
    return weir_api_client_ask(client, path, wish);
}
