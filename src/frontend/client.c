#include "frontend/client.h"

void weir_client_begin_reply(struct weir_client *client, enum weir_http1_framing framing,
                             bool read_whole)
{
    client->reply_framing = (uint8_t)framing;
    client->keeps = client->keeps && framing != WEIR_FRAMING_UNTIL_CLOSE && read_whole &&
                    !client->worker->draining;
}

void weir_client_begin_tunnel(struct weir_client *client)
{
    client->keeps = false;
    client->tunnel = true;
}

bool weir_client_continue(struct weir_client *client)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct weir_slice head = {text, sizeof text - 1};
    return weir_client_write(client, head, (struct weir_slice){0}) == (ssize_t)head.bytes;
}

void weir_client_press(struct weir_client *client)
{
    weir_timer_set(&client->worker->loop, &client->timer,
                   client->worker->loop.now_ns + client->listener->config->patience.stall_ns);
}

void weir_client_relax(struct weir_client *client)
{
    weir_timer_set(&client->worker->loop, &client->timer, WEIR_NEVER);
}
