/* Who is at the other end of a TLS stream: sessions that are taken up again, names, certificates,
 * files. */
#include "unit/tls_helpers.h"

/* ---- sessions ---- */

/* Waits until what the server sends after a handshake has been read. */
static void read_tickets(void)
{
    far_says("x");
    expect_heard("x");
}

TEST(the_second_handshake_is_a_short_one)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        for (int round = 0; round < 6; round++) {
            connect_line();
            assert_int_equal(weir_tls_reused(&line.stream), round > 0);
            assert_int_equal(SSL_session_reused(line.far_ssl), round > 0);
            read_tickets();
            assert_in_range(line.server.session_count, 1, WEIR_TLS_SESSIONS_MAX);
            hang_up();
        }
        close_line();
    }
}

TEST(a_server_that_closes_without_a_goodbye_does_not_spoil_its_session)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        read_tickets();
        close(line.far);
        line.far = -1;
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        hang_up();
        connect_line();
        assert_true(weir_tls_reused(&line.stream));
        close_line();
    }
}

TEST(no_more_sessions_are_kept_than_stated)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        SSL_CTX_set_num_tickets(line.far_context, 10);
        for (int round = 0; round < 10; round++) {
            connect_line();
            read_tickets();
            hang_up();
            assert_true(line.server.session_count <= WEIR_TLS_SESSIONS_MAX);
        }
        close_line();
    }
}

TEST(a_session_of_tls_1_3_is_used_once)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    read_tickets();
    uint32_t count = line.server.session_count;
    assert_int_equal(count, 2);
    hang_up();
    call();
    assert_int_equal(line.server.session_count, count - 1);
    assert_int_equal(shake(), WEIR_TLS_DONE);
    assert_true(weir_tls_reused(&line.stream));
    close_line();
}

TEST(what_a_server_sends_between_requests_need_not_be_bytes)
{
    char bytes[8];
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    read_tickets();
    SSL_new_session_ticket(line.far_ssl);
    assert_int_equal(SSL_do_handshake(line.far_ssl), 1);
    while (BIO_ctrl_pending(line.far_out) > 0 || !line.stream.readable) {
        turn();
    }
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
    say("still");
    expect_far_hears("still");
    close_line();
}

/* ---- who is called ---- */

TEST(a_server_is_told_the_name_that_it_is_called_by_and_the_protocol)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "www.b.test.");
        connect_line();
        assert_string_equal(line.seen_name, "www.b.test");
        assert_string_equal(line.seen_protocols, "http/1.1");
        close_line();
    }
}

TEST(an_address_is_checked_but_not_told)
{
    static const char *const numbers[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        open_line(&leaf, TLS1_3_VERSION, "root", numbers[i]);
        connect_line();
        assert_string_equal(line.seen_name, "");
        close_line();
    }
}

TEST(a_name_that_is_too_long_is_refused)
{
    char name[300];
    struct weir_tls_server server;
    struct weir_tls_client *client = make_client("root", true);
    memset(name, 'a', sizeof name);
    assert_true(weir_tls_server_init(&server, client, (struct weir_slice){name, 255}));
    assert_false(weir_tls_server_init(&server, client, (struct weir_slice){name, 256}));
    assert_false(weir_tls_server_init(&server, client, (struct weir_slice){name, 0}));
    weir_tls_server_deinit(&server);
    weir_tls_client_destroy(client);
}

/* ---- what fails ---- */

static void expect_failure(const struct identity *identity, const char *ca, const char *name,
                           const char *text)
{
    for_each_version(v)
    {
        open_line(identity, versions[v], ca, name);
        call();
        assert_int_equal(shake(), WEIR_TLS_FAILED);
        if (strstr(line.error, text) == NULL) {
            fail_msg("expected \"%s\", but it said: %s", text, line.error);
        }
        const char *again = "";
        assert_int_equal(weir_tls_shake_hands(&line.stream, &again), WEIR_TLS_FAILED);
        close_line();
    }
}

TEST(a_certificate_for_somebody_else_is_refused)
{
    expect_failure(&leaf, "root", "c.test", "another name");
    expect_failure(&leaf, "root", "b.test", "another name");
    expect_failure(&leaf, "root", "a.b.b.test", "another name");
    expect_failure(&leaf, "root", "127.0.0.2", "another name");
    expect_failure(&leaf, "root", "::2", "another name");
}

TEST(a_certificate_is_good_for_its_time_only)
{
    struct identity old = make_identity((struct wish){"old", "DNS:a.test", -7200, -3600, &root});
    struct identity young = make_identity((struct wish){"young", "DNS:a.test", 3600, 7200, &root});
    expect_failure(&old, "root", "a.test", "has expired");
    expect_failure(&young, "root", "a.test", "not valid yet");
    free_identity(&old);
    free_identity(&young);
}

TEST(an_unknown_issuer_is_told_with_the_setting_that_makes_it_known)
{
    struct identity own = make_identity((struct wish){"own", "DNS:a.test", -3600, 3600, NULL});
    expect_failure(&leaf, "other", "a.test", "as ca in");
    expect_failure(&leaf, NULL, "a.test", "as ca in");
    expect_failure(&own, "root", "a.test", "signed by itself");
    free_identity(&own);
}

TEST(a_certificate_that_is_named_itself_is_trusted)
{
    struct identity own = make_identity((struct wish){"own", "DNS:a.test", -3600, 3600, NULL});
    write_pem("leaf", &own);
    open_line(&own, TLS1_3_VERSION, "leaf", "a.test");
    connect_line();
    close_line();
    free_identity(&own);
}

TEST(an_issuer_that_others_vouch_for_may_be_named)
{
    struct identity below =
        make_identity((struct wish){"below", "DNS:a.test", -3600, 3600, &middle});
    expect_failure(&below, "root", "a.test",
                   "make the upstream send its intermediate certificates");
    open_line(&below, TLS1_3_VERSION, "middle", "a.test");
    connect_line();
    close_line();
    free_identity(&below);
}

TEST(without_verification_any_certificate_is_good)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "c.test");
    weir_tls_client_destroy(line.client);
    line.client = make_client(NULL, false);
    line.server.client = line.client;
    connect_line();
    assert_string_equal(line.seen_name, "c.test");
    close_line();
}

TEST(versions_before_1_2_are_refused)
{
    open_line(&leaf, TLS1_1_VERSION, "root", "a.test");
    call();
    assert_int_equal(shake(), WEIR_TLS_FAILED);
    assert_non_null(strstr(line.error, "versions of TLS before 1.2"));
    close_line();
}

/* A server that is not one of TLS: what it says to a hello, or null if it just closes. */
static void expect_stranger(const char *says, const char *text)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    call();
    if (says != NULL) {
        assert_int_equal(send(line.far, says, strlen(says), MSG_NOSIGNAL), strlen(says));
    }
    enum weir_tls_step step;
    while ((step = weir_tls_shake_hands(&line.stream, &line.error)) == WEIR_TLS_AGAIN) {
        turn();
        if (says == NULL && line.far >= 0) {
            close(line.far);
            line.far = -1;
        }
    }
    assert_int_equal(step, WEIR_TLS_FAILED);
    if (strstr(line.error, text) == NULL) {
        fail_msg("expected \"%s\", but it said: %s", text, line.error);
    }
    close_line();
}

TEST(a_server_without_tls_is_told_as_such)
{
    expect_stranger("HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS");
    expect_stranger("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "does not speak TLS");
    expect_stranger(NULL, "closed the connection during the TLS handshake");
}

/* ---- files ---- */

static void expect_bad_file(const char *path, const char *text)
{
    const char *error = NULL;
    assert_null(weir_tls_client_create(
        &(struct weir_tls_trust){.ca = weir_slice_of(path), .verify = true}, &error));
    if (strstr(error, text) == NULL || strstr(error, "in PEM format") == NULL) {
        fail_msg("expected \"%s\", but it said: %s", text, error);
    }
}

TEST(a_file_that_is_no_authority_is_refused)
{
    char bad[256];
    snprintf(bad, sizeof bad, "%s", path_of("bad"));
    expect_bad_file(bad, "No such file");
    expect_bad_file(folder, "");
    static const char broken[] = "-----BEGIN CERTIFICATE-----\nAAAA\n"
                                 "-----END CERTIFICATE-----\n";
    static const char *const contents[] = {"", "nonsense\n", broken};
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        FILE *file = fopen(bad, "w");
        assert_non_null(file);
        fputs(contents[i], file);
        fclose(file);
        expect_bad_file(bad, "no certificate that can be used");
    }
    char long_path[5000];
    const char *error = NULL;
    memset(long_path, 'a', sizeof long_path);
    assert_null(weir_tls_client_create(
        &(struct weir_tls_trust){.ca = {long_path, sizeof long_path}, .verify = true}, &error));
    assert_non_null(strstr(error, "too long"));
}

int main(void)
{
    signal(SIGPIPE, SIG_DFL); /* a write that raises it ends the program, which is the test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_handshake_is_a_short_one),
        cmocka_unit_test(a_server_that_closes_without_a_goodbye_does_not_spoil_its_session),
        cmocka_unit_test(no_more_sessions_are_kept_than_stated),
        cmocka_unit_test(a_session_of_tls_1_3_is_used_once),
        cmocka_unit_test(what_a_server_sends_between_requests_need_not_be_bytes),
        cmocka_unit_test(a_server_is_told_the_name_that_it_is_called_by_and_the_protocol),
        cmocka_unit_test(an_address_is_checked_but_not_told),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(a_certificate_for_somebody_else_is_refused),
        cmocka_unit_test(a_certificate_is_good_for_its_time_only),
        cmocka_unit_test(an_unknown_issuer_is_told_with_the_setting_that_makes_it_known),
        cmocka_unit_test(a_certificate_that_is_named_itself_is_trusted),
        cmocka_unit_test(an_issuer_that_others_vouch_for_may_be_named),
        cmocka_unit_test(without_verification_any_certificate_is_good),
        cmocka_unit_test(versions_before_1_2_are_refused),
        cmocka_unit_test(a_server_without_tls_is_told_as_such),
        cmocka_unit_test(a_file_that_is_no_authority_is_refused),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
