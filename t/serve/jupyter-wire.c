/* jupyter-wire.c - tests of frames and signatures of Jupyter messages, without a network. */
#include "shell/jupyter/jupyter_wire.h"
#include "t/lib/tap.h"

/* A request with a signature computed by Python's hmac module, with the key "key". */
static const char *const parts[] = {"client",
                                    "<IDS|MSG>",
                                    "3b439f21837990a3afda3b88d5e4e855ee73d3256016ca46afad12b9f0e384ef",
                                    "{\"msg_type\":\"execute_request\",\"msg_id\":\"1\"}",
                                    "{}",
                                    "{}",
                                    "{\"code\":\"1+1\"}"};
enum { NPARTS = 7 };

static struct wire wire = {.key = "key"};

static void
fill(struct frames *f)
{
    for (int k = 0; k < NPARTS; k++) frames_add(f, parts[k], strlen(parts[k]));
}

static void
read_and_answer(void)
{
    struct frames f = {0}, out = {0};
    struct message m, back;
    fill(&f);
    ok(!message_read(&wire, &f, &m), "a message signed by another program is read");
    ok(m.ids.n == 1 && !strcmp(m.ids.frame[0].data, "client"), "the message's identities are kept");
    ok(!strcmp(message_type(&m), "execute_request"), "the message's type is recognised");
    message_write(&wire, &out, &m, true, "execute_reply", json_pack("{si}", "n", 7));
    ok(!strcmp(out.frame[0].data, "client"), "a reply is addressed to the sender");
    ok(strstr(out.frame[4].data, "\"msg_id\":\"1\"") != NULL, "the reply's parent header is the request's header");
    ok(!message_read(&wire, &out, &back), "a written message can be read back");
    ok(json_integer_value(json_object_get(back.content, "n")) == 7, "the content read back is the same");
    message_free(&m);
    message_free(&back);
    frames_free(&f);
    frames_free(&out);
}

/* Changes each byte of the signature and of the four parts, and checks that the message is rejected. */
static void
refuse_changes(void)
{
    int taken = 0, tried = 0;
    for (int k = 2; k < NPARTS; k++)
        for (size_t at = 0; at < strlen(parts[k]); at++) {
            struct frames f = {0};
            struct message m;
            fill(&f);
            f.frame[k].data[at] ^= 1;
            if (!message_read(&wire, &f, &m)) taken++, message_free(&m);
            frames_free(&f);
            tried++;
        }
    ok(tried > 100 && taken == 0, "a message with any byte changed is refused");
    for (int n = 0; n < NPARTS; n++) {
        struct frames f = {0};
        struct message m;
        for (int k = 0; k < n; k++) frames_add(&f, parts[k], strlen(parts[k]));
        taken += !message_read(&wire, &f, &m);
        frames_free(&f);
    }
    ok(taken == 0, "a truncated message is refused");
}

static void
keep_text_whole(void)
{
    static const struct {
        const char *text, *good;
        size_t whole;
    } cases[] = {
        {"plain", "plain", 5},
        {"\xc3\xa9", "\xc3\xa9", 2},
        {"a\xc3", "a\xef\xbf\xbd", 1},
        {"a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd", 1},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 4},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3}, /* a UTF-16 surrogate, invalid in UTF-8 */
        {"\xff z", "\xef\xbf\xbd z", 3},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        json_t *s = wire_text(cases[k].text, strlen(cases[k].text));
        ok(s && !strcmp(json_string_value(s), cases[k].good), "text %zu becomes valid UTF-8", k);
        ok(wire_whole(cases[k].text, strlen(cases[k].text)) == cases[k].whole, "text %zu is cut between characters", k);
        json_decref(s);
    }
}

int
main(void)
{
    ok(!wire_open(&wire), "wire_open draws a session id");
    read_and_answer();
    refuse_changes();
    keep_text_whole();
    return done();
}
