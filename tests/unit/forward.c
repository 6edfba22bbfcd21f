/* Heads of requests as they go on. */
#include "llm/llm_filter.h"
#include "unit/forward_helpers.h"

/* ---- which fields pass ---- */

TEST(a_plain_request_goes_on_with_what_weir_adds)
{
    begin_anew();
    forward(GET("Host: a.example\r\nAccept: */*\r\nX-Own:  1\t\r\n"));
    expect_span(out.data, out_head.method_name, "GET");
    expect_target("/a?q");
    expect_passed("Accept=*/*;X-Own=1;");
    expect_field("host", SERVER);
    expect_field("via", "1.1 weir");
    expect_field("x-request-id", ID_TEXT);
    expect_field("x-forwarded-for", PEER);
    expect_field("x-forwarded-proto", "http");
    expect_field("x-forwarded-host", "a.example");
    expect_field("forwarded", "for=" PEER ";host=\"a.example\";proto=http");
    expect_no_field("content-length");
    expect_no_field("transfer-encoding");
    expect_no_field("connection");
    assert_int_equal(out_head.field_count, 9);
}

/* Lines are copied in runs; a run may be cut anywhere. */
TEST(what_stays_behind_may_stand_first_last_between_or_alone)
{
    static const struct {
        struct weir_slice head;
        const char *passed;
    } cases[] = {
        {GET("Host: a\r\nA: 1\r\nB: 2\r\n"), "A=1;B=2;"},
        {GET("A: 1\r\nHost: a\r\nB: 2\r\n"), "A=1;B=2;"},
        {GET("A: 1\r\nB: 2\r\nHost: a\r\n"), "A=1;B=2;"},
        {GET("Host: a\r\nTE: trailers\r\nA: 1\r\n"), "A=1;"},
        {GET("A: 1\r\nTE: trailers\r\nHost: a\r\n"), "A=1;"},
        {GET("TE: trailers\r\nA: 1\r\nHost: a\r\n"), "A=1;"},
        {GET("A: 1\r\nHost: a\r\nB: 2\r\nTE: trailers\r\nC: 3\r\n"), "A=1;B=2;C=3;"},
        {GET("A: 1\r\nHost: a\r\nTE: trailers\r\nKeep-Alive: 1\r\nB: 2\r\n"), "A=1;B=2;"},
        {GET("Host: a\r\nTE: trailers\r\nKeep-Alive: 1\r\n"), ""},
        {GET("Host: a\r\n"), ""},
        {BYTES("GET /a?q HTTP/1.0\r\nA: 1\r\n\r\n"), "A=1;"},
        {BYTES("GET /a?q HTTP/1.0\r\nA: 1\r\nB:\r\nA:2\r\n\r\n"), "A=1;B=;A=2;"},
        {BYTES("GET /a?q HTTP/1.0\r\n\r\n"), ""},
        {BYTES("\r\nGET /a?q HTTP/1.0\r\nA: 1\r\n\r\n"), "A=1;"},
    };
    begin_anew();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        forward(cases[i].head);
        expect_target("/a?q");
        expect_passed(cases[i].passed);
    }
}

TEST(fields_of_one_connection_stay_behind)
{
    begin_anew();
    forward(GET("Host: a\r\nConnection: close, X-Listed, x-OTHER\r\nA: 1\r\nX-Listed: 1\r\n"
                "X-Other: 2\r\nx-listed: 3\r\nX-Listed-Not: 4\r\nKeep-Alive: timeout=5\r\n"
                "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
                "Proxy-Authenticate: Basic\r\nTE: trailers\r\nHTTP2-Settings: AAA\r\n"
                "Upgrade: h2c\r\nTrailer: X\r\nB: 2\r\n"));
    expect_passed("A=1;X-Listed-Not=4;B=2;");
    expect_no_field("connection");
    expect_no_field("upgrade");
}

TEST(a_connection_field_may_list_what_is_not_there_and_come_twice)
{
    begin_anew();
    forward(
        GET("Host: a\r\nConnection: X-A\r\nX-B: 1\r\nConnection: keep-alive, X-B\r\nX-C: 2\r\n"));
    expect_passed("X-C=2;");
    expect_no_field("connection");
}

TEST(what_the_gateway_itself_is_told_stays_behind)
{
    begin_anew();
    forward(GET("Host: a\r\nWeir-Timeout: 5s\r\nWeir-Flow: end\r\nA: 1\r\n"));
    expect_passed("A=1;");
}

TEST(an_api_key_of_ours_stays_behind_where_it_was_asked_for)
{
    static const struct weir_slice bytes = GET("Host: a\r\n"
                                               "Authorization: Bearer weir_1_2\r\n"
                                               "X-A: 1\r\n"
                                               "X-Api-Key: weir_1_2\r\n"
                                               "Api-Key: other\r\n");
    begin_anew();
    route.tenant.kind = WEIR_CONFIG_SOURCE_API_KEY;
    forward(bytes);
    expect_passed("X-A=1;Api-Key=other;");
    route.tenant.kind = WEIR_CONFIG_SOURCE_HEADER;
    forward(bytes);
    expect_passed("Authorization=Bearer weir_1_2;X-A=1;X-Api-Key=weir_1_2;Api-Key=other;");
}

TEST(the_body_is_announced_as_it_was_and_once)
{
    begin_anew();
    forward(BYTES("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
    expect_field("content-length", "0");
    forward(BYTES("POST / HTTP/1.1\r\nContent-Length: 9223372036854775807\r\nHost: a\r\n\r\n"));
    expect_field("content-length", "9223372036854775807");
    expect_no_field("transfer-encoding");
    forward(BYTES("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nA: 1\r\n\r\n"));
    expect_field("transfer-encoding", "chunked");
    expect_no_field("content-length");
    expect_passed("A=1;");
}

TEST(as_many_fields_as_may_be_pass)
{
    static struct text text;
    static struct text passed;
    begin_anew();
    text.bytes = 0;
    passed.bytes = 0;
    add(&text, "GET / HTTP/1.0\r\n");
    /* Weir adds six, and the one who reads it here takes no more than others do. */
    for (int i = 0; i < WEIR_HTTP1_FIELDS_MAX - 6; i++) {
        add(&text, "X: y\r\n");
        add(&passed, "X=y;");
    }
    add(&text, "\r\n");
    add_bytes(&passed, "", 1);
    forward(slice_of(&text));
    expect_passed(passed.data);
}

/* ---- what an upstream sets ---- */

TEST(what_an_upstream_sets_replaces_what_the_client_sent)
{
    begin_anew();
    set_header(0, "Authorization", "Bearer ours");
    set_header(0, "X-Own", "");
    forward(GET("Host: a\r\nAUTHORIZATION: Bearer theirs\r\nA: 1\r\nx-own: 1\r\nX-Own: 2\r\n"
                "X-Owner: 3\r\nX-Ow: 4\r\n"));
    expect_passed("A=1;X-Owner=3;X-Ow=4;Authorization=Bearer ours;X-Own=;");
    expect_field("host", SERVER);
}

/* The upstream is chosen later, so nothing that any of them replaces may pass. */
TEST(what_another_upstream_of_the_route_sets_does_not_pass_either)
{
    begin_anew();
    set_header(1, "Authorization", "Bearer ours");
    forward(GET("Host: a\r\nAuthorization: Bearer theirs\r\n"));
    expect_passed("Authorization=Bearer theirs;");
    route.upstream_count = 2;
    forward(GET("Host: a\r\nAuthorization: Bearer theirs\r\n"));
    expect_passed("");
}

/* Also what Weir would say itself, and what a believed peer has said. */
TEST(what_an_upstream_sets_is_said_once_whatever_else_would_be_said)
{
    static const char *const names[] = {"X-Forwarded-For",  "Forwarded", "X-Forwarded-Proto",
                                        "X-Forwarded-Host", "Via",       "X-Request-Id",
                                        "X-Real-IP"};
    for (size_t i = 0; i < 2 * COUNT_OF(names); i++) {
        const char *name = names[i / 2];
        static struct text text;
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        add(&text, name);
        add(&text, ": theirs\r\n\r\n");
        begin_anew();
        request.trusted = i % 2 == 0;
        set_header(0, name, "ours");
        forward(slice_of(&text));
        expect_field(name, "ours");
        forward(GET("Host: a\r\n"));
        expect_field(name, "ours");
    }
}

TEST(an_upstream_may_set_the_host)
{
    begin_anew();
    set_header(0, "HOST", "virtual.example");
    forward(GET("Host: a\r\nA: 1\r\n"));
    expect_field("host", "virtual.example");
    expect_field("x-forwarded-host", "a");
    expect_passed("A=1;");
}

TEST(a_header_that_would_break_the_head_is_not_written)
{
    struct weir_http1_head head = accept_request(GET("Host: a\r\n"));
    begin_anew();
    set_header(0, "X-Own", "1\r\nX-Smuggled: 2");
    request.head = &head;
    request.data = guarded(GET("Host: a\r\n"));
    begin_out(WEIR_BUFFER_LARGE);
    assert_true(weir_forward_request(&request, &out));
    uint32_t end = out.end;
    assert_false(finish(&head));
    assert_int_equal(out.end, end);
}

/* ---- names that a server might take for another ---- */

/* Servers that hand fields on as variables make HTTP_X_AUTH_USER of both X-Auth-User and
 * X_Auth_User, and some of X.Auth.User too. */
TEST(what_may_be_taken_for_a_header_that_an_upstream_sets_does_not_pass)
{
    begin_anew();
    set_header(0, "X-Auth-User", "service");
    set_header(1, "User_Agent", "ours");
    forward(GET("Host: a\r\nX_Auth_User: admin\r\nA_1: 1\r\nx-auth_user: admin\r\n"
                "X.AUTH.USER: admin\r\nX-Auth-User: admin\r\nXAuthUser: 2\r\nX_Auth_Users: 3\r\n"));
    expect_passed("A_1=1;XAuthUser=2;X_Auth_Users=3;X-Auth-User=service;");
    route.upstream_count = 2;
    forward(GET("Host: a\r\nUser-Agent: b\r\nUSER_AGENT: c\r\n"));
    expect_passed("X-Auth-User=service;");
}

/* An upstream's own header may be the one with the underscores. */
TEST(a_header_with_underscores_that_an_upstream_sets_replaces_the_one_with_dashes)
{
    begin_anew();
    set_header(0, "X_Auth_User", "service");
    set_header(0, "X_Forwarded_For", "192.0.2.9");
    set_header(0, "api_key", "ours");
    forward(GET("Host: a\r\nX-Auth-User: admin\r\nx_auth_user: admin\r\nApi-Key: theirs\r\n"
                "X-Forwarded-For: 1.1.1.1\r\nA: 1\r\n"));
    expect_no_field("x-forwarded-for");
    expect_passed("A=1;X_Auth_User=service;X_Forwarded_For=192.0.2.9;api_key=ours;");
}

TEST(what_may_be_taken_for_what_weir_says_does_not_pass_whoever_is_believed)
{
    static const char *const names[] = {
        "X_Forwarded_For",   "x_forwarded-for",     "X-Forwarded_Proto", "X_FORWARDED_HOST",
        "X_Real_IP",         "X_Request_Id",        "Content_Length",    "Transfer_Encoding",
        "TRANSFER.ENCODING", "Weir_Timeout",        "Weir_Flow",         "Keep_Alive",
        "Proxy_Connection",  "Proxy_Authorization", "HTTP2_Settings",    "Sec_Fetch_Site",
    };
    for (size_t i = 0; i < 2 * COUNT_OF(names); i++) {
        static struct text text;
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n");
        add(&text, names[i / 2]);
        add(&text, ": 6.6.6.6\r\nB: 2\r\n\r\n");
        begin_anew();
        request.trusted = i % 2 == 0;
        forward(slice_of(&text));
        expect_passed("A=1;B=2;");
    }
}

TEST(what_may_be_taken_for_a_name_that_the_route_reads_does_not_pass)
{
    static const struct weir_config_source key[] = {
        {.kind = WEIR_CONFIG_SOURCE_CONSTANT, .text = {"X-Constant", 10}},
        {.kind = WEIR_CONFIG_SOURCE_HEADER, .text = {"X-Key", 5}},
    };
    static const struct weir_slice bytes =
        GET("Host: a\r\nX-Tenant: 1\r\nX_Tenant: 2\r\nX-Priority: 3\r\nX-PRIORITY_: 4\r\n"
            "x_priority: 5\r\nX_Flow: 6\r\nX-Flow: 7\r\nx_key: 8\r\nX-KEY: 9\r\n"
            "X_Constant: 10\r\n");
    begin_anew();
    forward(bytes);
    expect_passed("X-Tenant=1;X_Tenant=2;X-Priority=3;X-PRIORITY_=4;x_priority=5;X_Flow=6;X-Flow=7;"
                  "x_key=8;X-KEY=9;X_Constant=10;");
    route.tenant = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_HEADER,
                                               .text = weir_slice_of("X-Tenant")};
    route.priority = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_HEADER,
                                                 .text = weir_slice_of("x-priority")};
    route.flow = (struct weir_config_source){
        .kind = WEIR_CONFIG_SOURCE_HEADER, .text = weir_slice_of("X_Flow"), .odd_name = true};
    route.key = key;
    route.key_parts = COUNT_OF(key);
    forward(bytes);
    expect_passed("X-Tenant=1;X-Priority=3;X-PRIORITY_=4;X_Flow=6;X-KEY=9;X_Constant=10;");
}

TEST(what_may_be_taken_for_credentials_does_not_reach_an_llm)
{
    static const struct weir_slice bytes =
        GET("Host: a\r\napi_key: 1\r\nX_Api_Key: 2\r\nX_Tenant: acme\r\nAccept_Encoding: gzip\r\n"
            "X_Forwarded_Client_Cert: 3\r\nA_1: 1\r\n");
    begin_anew();
    forward(bytes); /* api_key is a name that plain upstreams use */
    expect_passed("api_key=1;X_Api_Key=2;X_Tenant=acme;Accept_Encoding=gzip;"
                  "X_Forwarded_Client_Cert=3;A_1=1;");
    route.tenant = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_HEADER,
                                               .text = weir_slice_of("X-Tenant")};
    request.policy = &weir_llm_filter.policy;
    forward(bytes);
    expect_passed("A_1=1;accept-encoding=identity;");
    request.policy = NULL;
    route.tenant.kind = WEIR_CONFIG_SOURCE_API_KEY;
    forward(bytes);
    expect_passed("X_Tenant=acme;Accept_Encoding=gzip;X_Forwarded_Client_Cert=3;A_1=1;");
}

/* ---- the target ---- */

static const char *stripped(const char *target, uint32_t segments)
{
    static struct text text;
    static char result[256];
    text.bytes = 0;
    add(&text, "GET ");
    add(&text, target);
    add(&text, " HTTP/1.1\r\nHost: a\r\n\r\n");
    begin_anew();
    route.strip_segments = segments;
    forward(slice_of(&text));
    expect_field("host", SERVER);
    snprintf(result, sizeof result, "%.*s", (int)out_head.target.bytes,
             out.data + out_head.target.at);
    return result;
}

TEST(a_target_goes_on_as_it_is)
{
    static const char *const targets[] = {
        "/",      "/a",      "/a/",     "/a/b/c?d=e&f", "/?",       "/?a?b/c",
        "/a%2Fb", "/a%2fb?", "/a;b=c,", "/a//b",        "/~user/+", "/a?b=%00",
    };
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        assert_string_equal(stripped(targets[i], 0), targets[i]);
    }
}

TEST(segments_are_stripped_from_the_front_and_the_query_stays)
{
    assert_string_equal(stripped("/a/b/c", 1), "/b/c");
    assert_string_equal(stripped("/a/b/c", 2), "/c");
    assert_string_equal(stripped("/a/b/c?x=/y/z", 1), "/b/c?x=/y/z");
    assert_string_equal(stripped("/a/b/c?x", 2), "/c?x");
    assert_string_equal(stripped("/a/b/", 1), "/b/");
    assert_string_equal(stripped("/a/b/", 2), "/");
    assert_string_equal(stripped("/a/b/?", 2), "/?");
    assert_string_equal(stripped("/a%2Fb/c", 1), "/c");
}

TEST(an_api_key_in_the_query_does_not_reach_an_llm)
{
    static const struct {
        struct weir_slice head;
        const char *target;
    } cases[] = {
        {BYTES("GET /a?key=1 HTTP/1.1\r\nHost: a\r\n\r\n"), "/a"},
        {BYTES("GET /a?alt=sse&key=1 HTTP/1.1\r\nHost: a\r\n\r\n"), "/a?alt=sse"},
        {BYTES("GET /a?key=1&alt=sse HTTP/1.1\r\nHost: a\r\n\r\n"), "/a?alt=sse"},
        {BYTES("GET /a?a=1&key=1&key=2&b=2 HTTP/1.1\r\nHost: a\r\n\r\n"), "/a?a=1&b=2"},
        {BYTES("GET /a?%6bEy=0&%6b%65%79=1&k%65y=2 HTTP/1.1\r\nHost: a\r\n\r\n"), "/a?%6bEy=0"},
        {BYTES("GET /a?key HTTP/1.1\r\nHost: a\r\n\r\n"), "/a"},
        {BYTES("GET /a?ke&keys=1&monkey=2&k%6 HTTP/1.1\r\nHost: a\r\n\r\n"),
         "/a?ke&keys=1&monkey=2&k%6"},
        {BYTES("GET /a? HTTP/1.1\r\nHost: a\r\n\r\n"), "/a"},
    };
    begin_anew();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        request.policy = &weir_llm_filter.policy;
        forward(cases[i].head);
        expect_target(cases[i].target);
    }
    request.policy = NULL;
    forward(cases[0].head);
    expect_target("/a?key=1");
}

TEST(a_path_of_which_nothing_is_left_becomes_a_slash)
{
    assert_string_equal(stripped("/", 1), "/");
    assert_string_equal(stripped("/a", 1), "/");
    assert_string_equal(stripped("/a?x", 1), "/?x");
    assert_string_equal(stripped("/a?", 1), "/?");
    assert_string_equal(stripped("/?x", 1), "/?x");
    assert_string_equal(stripped("/a/b", 2), "/");
    assert_string_equal(stripped("/a/b", 3), "/");
    assert_string_equal(stripped("/a/b?/c/d", 3), "/?/c/d");
    assert_string_equal(stripped("/a/b?/c/d", UINT32_MAX), "/?/c/d");
}

TEST(an_absolute_target_goes_on_as_a_path)
{
    assert_string_equal(stripped("http://a", 0), "/");
    assert_string_equal(stripped("http://a/", 0), "/");
    assert_string_equal(stripped("http://a?x", 0), "/?x");
    assert_string_equal(stripped("http://a?", 1), "/?");
    assert_string_equal(stripped("http://a/b/c?x", 0), "/b/c?x");
    assert_string_equal(stripped("http://a/b/c?x", 1), "/c?x");
    assert_string_equal(stripped("http://a/b/c", 2), "/");
    begin_anew();
    forward(BYTES("GET http://a.example:80/b HTTP/1.1\r\nHost: a.example:80\r\n\r\n"));
    expect_field("x-forwarded-host", "a.example:80");
    expect_field("forwarded", "for=" PEER ";host=\"a.example:80\";proto=http");
}

TEST(a_method_of_any_name_goes_on)
{
    begin_anew();
    forward(BYTES("PROPFIND /a HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect_span(out.data, out_head.method_name, "PROPFIND");
    forward(BYTES("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect_span(out.data, out_head.method_name, "OPTIONS");
}

TEST(a_request_of_http_1_0_stays_one)
{
    begin_anew();
    forward(
        BYTES("POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\nA: 1\r\n\r\n"));
    assert_int_equal(out_head.minor, 0);
    assert_false(out_head.persists);
    expect_passed("A=1;");
    expect_field("via", "1.0 weir");
    expect_field("host", SERVER);
    expect_field("content-length", "3");
    expect_no_field("x-forwarded-host");
    expect_field("forwarded", "for=" PEER ";proto=http");
    forward(BYTES("GET /a HTTP/1.0\r\nHost: a\r\n\r\n"));
    expect_field("x-forwarded-host", "a");
}

/* ---- who asked ---- */

#define TOLD_BEFORE                                                                         \
    "Host: a\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=1.1.1.1\r\nA: 1\r\n"             \
    "X-Forwarded-For: 2.2.2.2, 3.3.3.3\r\nX-Forwarded-Proto: https\r\nForwarded: for=x\r\n" \
    "X-Forwarded-Host: before.example\r\nX-Real-IP: 1.1.1.1\r\nX-Forwarded-For:\r\nB: 2\r\n"

TEST(a_peer_that_is_not_believed_says_nothing_of_others)
{
    begin_anew();
    forward(GET(TOLD_BEFORE));
    expect_field("x-forwarded-for", PEER);
    expect_field("forwarded", "for=" PEER ";host=\"a\";proto=http");
    expect_field("x-forwarded-proto", "http");
    expect_field("x-forwarded-host", "a");
    expect_passed("A=1;B=2;");
}

TEST(a_peer_that_is_believed_is_added_to_what_it_says)
{
    begin_anew();
    request.trusted = true;
    forward(GET(TOLD_BEFORE));
    expect_field("x-forwarded-for", "1.1.1.1, 2.2.2.2, 3.3.3.3, " PEER);
    expect_field("forwarded", "for=1.1.1.1, for=x, for=" PEER ";host=\"a\";proto=http");
    expect_field("x-forwarded-proto", "https");
    expect_field("x-forwarded-host", "before.example");
    expect_passed("A=1;X-Real-IP=1.1.1.1;B=2;");
}

TEST(a_peer_that_is_believed_and_says_nothing_is_told_of_itself)
{
    begin_anew();
    request.trusted = true;
    forward(GET("Host: a\r\nX-Forwarded-For:\r\nForwarded: \r\n"));
    expect_field("x-forwarded-for", PEER);
    expect_field("forwarded", "for=" PEER ";host=\"a\";proto=http");
    expect_field("x-forwarded-proto", "http");
    expect_field("x-forwarded-host", "a");
    expect_passed("");
}

/* Who provides an LLM is a stranger: it learns of no addresses and no names of ours. */
TEST(an_llm_is_not_told_who_asked_whoever_is_believed)
{
    for (int trusted = 0; trusted < 2; trusted++) {
        begin_anew();
        request.policy = &weir_llm_filter.policy;
        request.trusted = trusted != 0;
        forward(GET(TOLD_BEFORE "x-forwarded-port: 80\r\nX-FORWARDED-Client-Cert: By=x\r\n"
                                "X-Forwarded: 1\r\nX-Forwarde-: 2\r\n"));
        expect_no_field("x-forwarded-for");
        expect_no_field("forwarded");
        expect_no_field("x-forwarded-proto");
        expect_no_field("x-forwarded-host");
        expect_passed("A=1;B=2;X-Forwarded=1;X-Forwarde-=2;accept-encoding=identity;");
        out.data[out.end - 1] = 0;
        assert_null(strstr(out.data, PEER));
    }
}

TEST(an_llm_is_not_told_whose_request_it_is)
{
    for (int llm = 0; llm < 2; llm++) {
        begin_anew();
        request.policy = llm != 0 ? &weir_llm_filter.policy : NULL;
        route.tenant = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_HEADER,
                                                   .text = weir_slice_of("X-Tenant")};
        forward(GET("Host: a\r\nA: 1\r\nx-tenant: acme\r\nX-Tenants: 2\r\n"));
        expect_passed(llm != 0 ? "A=1;X-Tenants=2;accept-encoding=identity;"
                               : "A=1;x-tenant=acme;X-Tenants=2;");
    }
}

TEST(an_llm_is_told_what_the_upstreams_headers_say)
{
    begin_anew();
    request.policy = &weir_llm_filter.policy;
    request.trusted = true;
    set_header(0, "X-Forwarded-For", "192.0.2.9");
    forward(GET(TOLD_BEFORE));
    expect_field("x-forwarded-for", "192.0.2.9");
    expect_no_field("forwarded");
}

TEST(an_llm_gets_none_of_the_clients_credentials_and_answers_as_it_is)
{
    begin_anew();
    request.policy = &weir_llm_filter.policy;
    set_header(0, "X-Api-Key", "ours");
    forward(
        GET("Host: a\r\nAuthorization: Bearer b\r\nx-api-key: c\r\napi-key: d\r\nCookie: e=f\r\n"
            "Accept-Encoding: gzip, br\r\nExpect: 100-continue\r\nA: 1\r\n"));
    expect_passed("A=1;accept-encoding=identity;X-Api-Key=ours;");
}

TEST(an_ipv6_address_is_quoted_where_rfc_7239_wants_it)
{
    begin_anew();
    request.peer = "2001:db8::1";
    forward(GET("Host: [::1]:80\r\n"));
    expect_field("x-forwarded-for", "2001:db8::1");
    expect_field("forwarded", "for=\"[2001:db8::1]\";host=\"[::1]:80\";proto=http");
}

TEST(a_peer_behind_a_unix_socket_has_no_address)
{
    begin_anew();
    request.peer = "unix";
    request.peer_is_unix = true;
    forward(GET("Host: a\r\n"));
    expect_field("forwarded", "for=unknown;host=\"a\";proto=http");
    request.trusted = true;
    forward(GET("Host: a\r\nForwarded: for=1.1.1.1\r\n"));
    expect_field("forwarded", "for=1.1.1.1, for=unknown;host=\"a\";proto=http");
}

TEST(the_longest_host_is_told_in_full)
{
    static struct text text;
    char host[512];
    char expected[1024];
    memset(host, 'h', 255);
    memcpy(host + 255, ":65535", 7);
    text.bytes = 0;
    add(&text, "GET / HTTP/1.1\r\nHost: ");
    add(&text, host);
    add(&text, "\r\n\r\n");
    begin_anew();
    request.peer = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255";
    forward(slice_of(&text));
    expect_field("x-forwarded-host", host);
    snprintf(expected, sizeof expected, "for=\"[%s]\";host=\"%s\";proto=http", request.peer, host);
    expect_field("forwarded", expected);
}

TEST(via_lists_everybody_on_the_way_whoever_the_peer_is)
{
    begin_anew();
    forward(GET("Via: 1.1 first\r\nHost: a\r\nA: 1\r\nvia: 1.0 second, 1.1 third\r\nVia:\r\n"));
    expect_field("via", "1.1 first, 1.0 second, 1.1 third, 1.1 weir");
    expect_passed("A=1;");
}

TEST(a_request_has_one_id_whatever_the_client_sends)
{
    begin_anew();
    forward(GET("Host: a\r\n"));
    expect_field("x-request-id", ID_TEXT);
    request.request_id = weir_slice_of("theirs");
    forward(GET("Host: a\r\nX-REQUEST-ID: theirs\r\n"));
    expect_field("x-request-id", "theirs");
    request.request_id = weir_slice_of(ID_TEXT);
    forward(GET("Host: a\r\nX-Request-Id: one\r\nX-Request-Id: two\r\n"));
    expect_field("x-request-id", ID_TEXT);
    set_header(0, "X-Request-Id", "fixed");
    forward(GET("Host: a\r\nX-Request-Id: theirs\r\n"));
    expect_field("X-Request-Id", "fixed");
}

/* Else whoever asks could make fields vanish that the upstream relies on. */
TEST(what_connection_lists_away_is_said_anew)
{
    begin_anew();
    forward(GET("Host: a\r\nConnection: X-Request-Id\r\nX-Request-Id: theirs\r\n"));
    expect_field("x-request-id", ID_TEXT);
    request.trusted = true;
    forward(GET("Host: a\r\nConnection: X-Forwarded-Proto, X-Forwarded-Host\r\n"
                "X-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n"));
    expect_field("x-forwarded-proto", "http");
    expect_field("x-forwarded-host", "a");
}

/* ---- upgrades ---- */

TEST(a_websocket_is_asked_for_anew)
{
    begin_anew();
    forward(GET("Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Protocol: chat\r\n"));
    assert_int_equal(out_head.upgrade, WEIR_UPGRADE_WEBSOCKET);
    expect_field("connection", "Upgrade");
    expect_field("upgrade", "websocket");
    expect_passed("Sec-WebSocket-Version=13;Sec-WebSocket-Key=dGhlIHNhbXBsZSBub25jZQ==;"
                  "Sec-WebSocket-Protocol=chat;");
}

TEST(any_other_upgrade_is_not_asked_for)
{
    begin_anew();
    forward(GET("Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nA: 1\r\n"));
    assert_int_equal(out_head.upgrade, WEIR_UPGRADE_NONE);
    expect_no_field("connection");
    expect_no_field("upgrade");
    expect_passed("A=1;");
}

/* ---- room ---- */

#define WITH_EVERYTHING                                                                          \
    GET("Host: a\r\nA: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nB: 2\r\nVia: 1.1 x\r\n" \
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"           \
        "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nForwarded: for=1.1.1.1\r\nC: "  \
        "3\r\n")

TEST(a_request_that_does_not_fit_fails_to_the_byte_and_leaves_the_buffer)
{
    struct weir_http1_head head = accept_request(WITH_EVERYTHING);
    begin_anew();
    request.trusted = true;
    request.head = &head;
    request.data = guarded(WITH_EVERYTHING);
    begin_out(WEIR_BUFFER_LARGE);
    assert_true(weir_forward_request(&request, &out));
    uint32_t needed = out.end;
    static char whole[4096];
    memcpy(whole, out_data, needed);
    for (uint32_t capacity = 0; capacity <= needed + 1; capacity++) {
        begin_out(capacity);
        bool fits = weir_forward_request(&request, &out);
        assert_int_equal(fits, capacity >= needed);
        assert_int_equal(out.begin, 0);
        assert_int_equal(out.end, fits ? needed : 0);
        assert_int_equal(out_data[capacity], '?');
        assert_memory_equal(out_data, whole, out.end);
    }
}

TEST(an_end_that_does_not_fit_fails_to_the_byte_and_leaves_the_buffer)
{
    begin_anew();
    set_header(0, "X-Own", "1");
    set_header(0, "X-Empty", "");
    static const char expected[] = "host: " SERVER "\r\nX-Own: 1\r\nX-Empty: \r\n\r\n";
    size_t needed = strlen(expected);
    assert_true(needed <= finish_bytes(NULL));
    for (uint32_t capacity = 3; capacity <= needed + 4; capacity++) {
        begin_out(capacity);
        memcpy(out_data, "abc", 3);
        out.begin = 1;
        out.end = 3;
        bool fits = finish(NULL);
        assert_int_equal(fits, capacity >= needed + 3);
        assert_int_equal(out.begin, 1);
        assert_int_equal(out.end, fits ? needed + 3 : 3);
        assert_int_equal(out_data[capacity], '?');
        assert_memory_equal(out_data, "abc", 3);
        assert_memory_equal(out_data + 3, expected, out.end - 3);
    }
}

TEST(the_end_takes_no_more_than_was_foretold)
{
    begin_anew();
    for (size_t bytes = 1; bytes <= 3; bytes++) {
        struct weir_forward_end end = {.upstream = &upstreams[0],
                                       .authority = {"abc", bytes},
                                       .framing = WEIR_FRAMING_LENGTH,
                                       .content_length = UINT64_MAX};
        begin_out(weir_forward_end_bytes(&end));
        assert_true(weir_forward_end(&end, &out));
        set_header(0, bytes == 2 ? "Host" : "X-Own", "abcdefgh");
    }
}

TEST(a_head_is_written_behind_what_is_in_the_buffer)
{
    struct weir_http1_head head = accept_request(GET("Host: a\r\n"));
    begin_anew();
    request.head = &head;
    request.data = guarded(GET("Host: a\r\n"));
    begin_out(WEIR_BUFFER_LARGE);
    memcpy(out_data, "abc", 3);
    out.begin = 1;
    out.end = 3;
    assert_true(weir_forward_request(&request, &out));
    assert_true(finish(&head));
    assert_memory_equal(out_data, "abcGET /a?q HTTP/1.1\r\n", 22);
    accept_request((struct weir_slice){out_data + 3, out.end - 3});
}

/* ---- heads of all kinds ---- */

static uint64_t random_state;

static uint32_t any(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % below;
}

/* What becomes of a field. */
enum fate {
    PASSES,
    STAYS,
    TRUSTED_ONLY,
    LISTED /* only if Connection lists it */
};

static const struct kind {
    const char *name;
    enum fate fate;
} kinds[] = {
    {"Accept", PASSES},
    {"x", PASSES},
    {"Cookie", PASSES},
    {"AUTHORIZATION", PASSES},
    {"User-Agent", PASSES},
    {"Origin", PASSES},
    {"X-Forwarded-Port", PASSES},
    {"Hostname", PASSES},
    {"Keep-Alive", STAYS},
    {"Proxy-Authorization", STAYS},
    {"proxy-connection", STAYS},
    {"Weir-Timeout", STAYS},
    {"Weir-Flow", STAYS},
    {"X-Key", STAYS}, /* which the upstream sets */
    {"x-kEY", STAYS},
    {"X-Real-IP", TRUSTED_ONLY},
    {"x-l1", LISTED},
    {"X-L2", LISTED},
    {"X-L3", LISTED},
};

static void add_value(struct text *text, struct text *model)
{
    static const char inside[] = "abcXYZ019 \t,;=\"/:\\?\xc3\xa4\xff(){}[]";
    static const char *const blanks[] = {"", " ", "  ", "\t", " \t "};
    char value[40];
    uint32_t bytes = any(sizeof value);
    for (uint32_t i = 0; i < bytes; i++) {
        bool edge = i == 0 || i + 1 == bytes;
        value[i] = edge ? 'v' : inside[any(sizeof inside - 1)];
    }
    add(text, blanks[any(COUNT_OF(blanks))]);
    add_bytes(text, value, bytes);
    add(text, blanks[any(COUNT_OF(blanks))]);
    add_bytes(model, value, bytes);
}

/* Writes a request head, and into the model what must come out. */
static void add_random_head(struct text *text, struct text *model, bool trusted)
{
    static const char *const methods[] = {"GET", "POST", "M-SEARCH"};
    static const char *const framings[] = {"", "Content-Length: 12\r\n",
                                           "Transfer-Encoding: chunked\r\n"};
    uint32_t listed = any(8); /* which of X-L1 to X-L3 */
    uint32_t field_count = any(20);
    uint32_t host_at = any(field_count + 1);
    uint32_t connection_at = any(field_count + 1);
    uint32_t framing_at = any(field_count + 1);
    static struct text skipped;
    add(text, methods[any(COUNT_OF(methods))]);
    add(text, " /a/b?c HTTP/1.1\r\n");
    for (uint32_t i = 0; i <= field_count; i++) {
        if (i == host_at) {
            add(text, "Host: a\r\n");
        }
        if (i == connection_at) {
            add(text, "Connection: keep-alive");
            add(text, (listed & 1) != 0 ? ", X-L1" : "");
            add(text, (listed & 2) != 0 ? ", x-l2" : "");
            add(text, (listed & 4) != 0 ? " ,X-L3" : "");
            add(text, "\r\n");
        }
        if (i == framing_at) {
            add(text, framings[any(COUNT_OF(framings))]);
        }
        if (i == field_count) {
            break;
        }
        const struct kind *kind = &kinds[any(COUNT_OF(kinds))];
        bool passes = kind->fate == PASSES || (kind->fate == TRUSTED_ONLY && trusted) ||
                      (kind->fate == LISTED && (listed >> (kind->name[3] - '1') & 1) == 0);
        struct text *passed = passes ? model : &skipped;
        skipped.bytes = 0;
        add(text, kind->name);
        add(text, ":");
        add(passed, kind->name);
        add(passed, "=");
        add_value(text, passed);
        add(text, "\r\n");
        add(passed, ";");
    }
    add(text, "\r\n");
}

TEST(of_any_head_exactly_what_may_pass_does_and_in_order)
{
    static struct text text;
    static struct text model;
    random_state = UINT64_C(0x5eed0fda77a11ed5);
    for (int round = 0; round < 2000; round++) {
        begin_anew();
        set_header(0, "X-Key", "ours");
        request.trusted = any(2) != 0;
        text.bytes = 0;
        model.bytes = 0;
        add_random_head(&text, &model, request.trusted);
        add(&model, "X-Key=ours;");
        add_bytes(&model, "", 1);

        struct weir_http1_head head;
        weir_http1_init_request(&head, WEIR_HTTP1_LIMITS_DEFAULT);
        request.head = &head;
        request.data = guarded(slice_of(&text));
        if (weir_http1_parse(&head, request.data, text.bytes) != WEIR_HTTP1_DONE) {
            fail_msg("round %d: %s in:\n%.*s", round, weir_http_fault_name(head.fault),
                     (int)text.bytes, text.data);
        }
        begin_out(WEIR_BUFFER_LARGE);
        assert_true(weir_forward_request(&request, &out));
        assert_true(finish(&head));
        weir_http1_init_request(&out_head, WEIR_HTTP1_LIMITS_DEFAULT);
        assert_int_equal(weir_http1_parse(&out_head, out.data, out.end), WEIR_HTTP1_DONE);
        assert_int_equal(out_head.head_bytes, out.end);
        assert_int_equal(out_head.framing, head.framing);
        assert_true(out_head.content_length == head.content_length);
        assert_true(out_head.persists);
        expect_target("/a/b?c");
        expect_passed(model.data);
        expect_field("host", SERVER);
        expect_field("via", "1.1 weir");
        expect_field("x-request-id", ID_TEXT);
        expect_field("x-forwarded-for", PEER);
        expect_no_field("connection");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_request_goes_on_with_what_weir_adds),
        cmocka_unit_test(what_stays_behind_may_stand_first_last_between_or_alone),
        cmocka_unit_test(fields_of_one_connection_stay_behind),
        cmocka_unit_test(a_connection_field_may_list_what_is_not_there_and_come_twice),
        cmocka_unit_test(what_the_gateway_itself_is_told_stays_behind),
        cmocka_unit_test(an_api_key_of_ours_stays_behind_where_it_was_asked_for),
        cmocka_unit_test(the_body_is_announced_as_it_was_and_once),
        cmocka_unit_test(as_many_fields_as_may_be_pass),
        cmocka_unit_test(what_an_upstream_sets_replaces_what_the_client_sent),
        cmocka_unit_test(what_another_upstream_of_the_route_sets_does_not_pass_either),
        cmocka_unit_test(what_an_upstream_sets_is_said_once_whatever_else_would_be_said),
        cmocka_unit_test(an_upstream_may_set_the_host),
        cmocka_unit_test(a_header_that_would_break_the_head_is_not_written),
        cmocka_unit_test(what_may_be_taken_for_a_header_that_an_upstream_sets_does_not_pass),
        cmocka_unit_test(
            a_header_with_underscores_that_an_upstream_sets_replaces_the_one_with_dashes),
        cmocka_unit_test(what_may_be_taken_for_what_weir_says_does_not_pass_whoever_is_believed),
        cmocka_unit_test(what_may_be_taken_for_a_name_that_the_route_reads_does_not_pass),
        cmocka_unit_test(what_may_be_taken_for_credentials_does_not_reach_an_llm),
        cmocka_unit_test(a_target_goes_on_as_it_is),
        cmocka_unit_test(segments_are_stripped_from_the_front_and_the_query_stays),
        cmocka_unit_test(an_api_key_in_the_query_does_not_reach_an_llm),
        cmocka_unit_test(a_path_of_which_nothing_is_left_becomes_a_slash),
        cmocka_unit_test(an_absolute_target_goes_on_as_a_path),
        cmocka_unit_test(a_method_of_any_name_goes_on),
        cmocka_unit_test(a_request_of_http_1_0_stays_one),
        cmocka_unit_test(a_peer_that_is_not_believed_says_nothing_of_others),
        cmocka_unit_test(a_peer_that_is_believed_is_added_to_what_it_says),
        cmocka_unit_test(a_peer_that_is_believed_and_says_nothing_is_told_of_itself),
        cmocka_unit_test(an_llm_is_not_told_who_asked_whoever_is_believed),
        cmocka_unit_test(an_llm_is_not_told_whose_request_it_is),
        cmocka_unit_test(an_llm_is_told_what_the_upstreams_headers_say),
        cmocka_unit_test(an_llm_gets_none_of_the_clients_credentials_and_answers_as_it_is),
        cmocka_unit_test(an_ipv6_address_is_quoted_where_rfc_7239_wants_it),
        cmocka_unit_test(a_peer_behind_a_unix_socket_has_no_address),
        cmocka_unit_test(the_longest_host_is_told_in_full),
        cmocka_unit_test(via_lists_everybody_on_the_way_whoever_the_peer_is),
        cmocka_unit_test(a_request_has_one_id_whatever_the_client_sends),
        cmocka_unit_test(what_connection_lists_away_is_said_anew),
        cmocka_unit_test(a_websocket_is_asked_for_anew),
        cmocka_unit_test(any_other_upgrade_is_not_asked_for),
        cmocka_unit_test(a_request_that_does_not_fit_fails_to_the_byte_and_leaves_the_buffer),
        cmocka_unit_test(an_end_that_does_not_fit_fails_to_the_byte_and_leaves_the_buffer),
        cmocka_unit_test(the_end_takes_no_more_than_was_foretold),
        cmocka_unit_test(a_head_is_written_behind_what_is_in_the_buffer),
        cmocka_unit_test(of_any_head_exactly_what_may_pass_does_and_in_order),
    };
    return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
