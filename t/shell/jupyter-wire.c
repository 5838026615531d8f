/* jupyter-wire.c - frames and signatures of Jupyter's messages, without a network. */
#include "shell/jupyter/jupyter_wire.h"
#include "t/lib/tap.h"

#include <string.h>

/* A request whose signature Python's hmac module computed: key "key". */
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
    ok(!message_read(&wire, &f, &m), "a message that another program signed is read");
    ok(m.ids.n == 1 && !strcmp(m.ids.frame[0].data, "client"), "its identities are kept");
    ok(!strcmp(message_type(&m), "execute_request"), "its type is known");
    message_write(&wire, &out, &m, true, "execute_reply", json_pack("{si}", "n", 7));
    ok(!strcmp(out.frame[0].data, "client"), "a reply goes to who asked");
    ok(strstr(out.frame[4].data, "\"msg_id\":\"1\"") != NULL, "the request's header is the reply's parent");
    ok(!message_read(&wire, &out, &back), "what is written can be read");
    ok(json_integer_value(json_object_get(back.content, "n")) == 7, "its content is the same");
    message_free(&m);
    message_free(&back);
    frames_free(&f);
    frames_free(&out);
}

/* Each byte of the signature and of the four parts counts. */
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
    ok(taken == 0, "a message that ends early is refused");
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
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3}, /* a surrogate */
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
    ok(!wire_open(&wire), "a session is drawn");
    read_and_answer();
    refuse_changes();
    keep_text_whole();
    return done();
}
