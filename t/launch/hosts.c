/* hosts.c - tests host lists: every notation, every error, and random texts. */
#include "shell/launch/hosts.h"
#include "t/lib/tap.h"

static struct hosts hosts;
static struct hosts_error error;

/* Returns the parsed hosts as text: "user@name=slots/port" for each host, without the parts that the list omits. */
static const char *
printed(void)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < hosts.n && n < sizeof text - 400; i++) {
        const struct host *h = &hosts.host[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s%s=%d", i ? " " : "", h->user, *h->user ? "@" : "",
                              h->name, h->slots);
        if (h->port) n += (size_t)snprintf(text + n, sizeof text - n, "/%d", h->port);
    }
    return text;
}

static void
test_spellings(void)
{
    static const struct {
        const char *text, *want;
    } row[] = {
        {"a", "a=1"},
        {"a:4,b:4", "a=4 b=4"},
        {"a , b:2", "a=1 b=2"},
        {"a\nb\n", "a=1 b=1"},
        {"a\r\nb\r\n", "a=1 b=1"},
        {"\n# all\n\na # one\n  b:2# two\n#", "a=1 b=2"},
        {"a slots=4", "a=4"},
        {"a slots=4 max_slots=8\nb max-slots=2 slots=2", "a=4 b=2"},
        {"a slots = 4\tmax_slots= 4", "a=4"},
        {"a slots=4, b slots=2", "a=4 b=2"},
        {"a\na\nb\na", "a=3 b=1"},
        {"a:2,b,a:3", "a=5 b=1"},
        {"me@a:2,you@a", "me@a=2 you@a=1"},
        {"ssh://a", "a=1"},
        {"ssh://me@a:2222", "me@a=1/2222"},
        {"ssh://me@a:2222:4,a:2", "me@a=4/2222 a=2"},
        {"ssh://a:22 slots=3", "a=3/22"},
        {"node-1.x_y.example.org", "node-1.x_y.example.org=1"},
        {"10.0.0.1:2,10.0.0.2", "10.0.0.1=2 10.0.0.2=1"},
        {"::1", "::1=1"},
        {"fe80::1%eth0", "fe80::1%eth0=1"},
        {"[::1]", "::1=1"},
        {"[fe80::1%eth0]:4,b", "fe80::1%eth0=4 b=1"},
        {"me@[2001:db8::7]:2", "me@2001:db8::7=2"},
        {"ssh://[::1]:2222", "::1=1/2222"},
        {"ssh://me@[::1]:2222:2", "me@::1=2/2222"},
        {"::1 slots=2", "::1=2"},
        {"node[01-03,07]", "node01=1 node02=1 node03=1 node07=1"},
        {"node[01-03,07]:2,login", "node01=2 node02=2 node03=2 node07=2 login=1"},
        {"n[8-11]", "n8=1 n9=1 n10=1 n11=1"},
        {"n[08-11]", "n08=1 n09=1 n10=1 n11=1"},
        {"n[098-101]", "n098=1 n099=1 n100=1 n101=1"},
        {"gpu-a[1-2]b[1-2]", "gpu-a1b1=1 gpu-a1b2=1 gpu-a2b1=1 gpu-a2b2=1"},
        {"n[0]", "n0=1"},
        {"n[00-01]", "n00=1 n01=1"},
        {"[1-2].example.org", "1.example.org=1 2.example.org=1"},
        {"me@n[1-2] slots=2", "me@n1=2 me@n2=2"},
        {"ssh://n[1-2]:23:4", "n1=4/23 n2=4/23"},
        {"n[1,1]", "n1=2"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int code = hosts_parse(row[i].text, strlen(row[i].text), &hosts, &error);
        bool good = ok(!code && !strcmp(printed(), row[i].want), "%s", row[i].want);
        if (!good) diag("%d:%d %s; %s", error.line, error.column, code ? error.text : "", printed());
    }
}

static void
test_errors(void)
{
    static const struct {
        const char *text;
        int line, column;
        const char *says;
    } row[] = {
        {"", 1, 1, "expected a host"},
        {"# nothing\n\n", 3, 1, "expected a host"},
        {"a,,b", 1, 3, "expected a host"},
        {",a", 1, 1, "expected a host"},
        {"a,", 1, 3, "after the comma"},
        {"a:2, # b", 1, 9, "after the comma"},
        {"a:", 1, 3, "the number of workers must be a number from 1 to 65536"},
        {"a\nb:0", 2, 3, "from 1"},
        {"a:99999999999999999999", 1, 3, "to 65536"},
        {"a:x", 1, 3, "the number of workers"},
        {"a:4:5", 1, 1, "IPv6"},
        {":4", 1, 1, "expected a host"},
        {"ssh://a:0", 1, 9, "a port must be a number from 1 to 65535"},
        {"ssh://a:65536", 1, 9, "a port"},
        {"ssh://a:22:", 1, 12, "the number of workers"},
        {"ssh://", 1, 7, "expected a host"},
        {"ssh://me@", 1, 10, "expected a host"},
        {"@a", 1, 1, "a user"},
        {"-l@a", 1, 1, "a user"},
        {"a b@c", 1, 3, "slots=N"},
        {"m e@a", 1, 3, "slots=N"},
        {"m/e@a", 1, 2, "a user's name must not contain '/'"},
        {"-oProxyCommand=x", 1, 1, "must not begin with '-'"},
        {"b,-v", 1, 3, "must not begin with '-'"},
        {"b/c", 1, 2, "a host's name must not contain '/'"},
        {"b;c", 1, 2, "must not contain ';'"},
        {"b$(c)", 1, 2, "must not contain '$'"},
        {"b\x1b", 1, 2, "byte 0x1b"},
        {"caf\xc3\xa9", 1, 4, "byte 0xc3"},
        {"a slots", 1, 8, "slots needs = and a number"},
        {"a slots=", 1, 9, "slots must be a number"},
        {"a slots=x", 1, 9, "slots must be a number"},
        {"a slots=-1", 1, 9, "slots must be a number"},
        {"a\n\n  b  sluts=4", 3, 6, "slots=N and max_slots=N"},
        {"a slots=4 max_slots=2", 1, 1, "a has 4 slots, more than max_slots=2"},
        {"a max_slots=1\na", 2, 1, "a has 2 slots, more than max_slots=1"},
        {"n[1-2", 1, 2, "is not closed"},
        {"n[1-2\n]", 1, 2, "is not closed"},
        {"n1-2]", 1, 5, "was not opened"},
        {"n[1[2]]", 1, 4, "must not be nested"},
        {"n[]", 1, 3, "brackets must have numbers"},
        {"n[1,]", 1, 5, "brackets must have numbers"},
        {"n[,1]", 1, 3, "brackets must have numbers"},
        {"n[1-]", 1, 5, "brackets must have numbers"},
        {"n[a-b]", 1, 3, "brackets must have numbers"},
        {"n[1-2-3]", 1, 6, "brackets must have numbers"},
        {"n[1234567890]", 1, 12, "up to 9 digits"},
        {"n[3-1]", 1, 5, "must not be below its start"},
        {"n[1-03]", 1, 5, "same number of digits"},
        {"n[1-2]/", 1, 7, "must not contain '/'"},
        {"n[0-999999999]", 1, 15, "at most 256 hosts"},
        {"n[1-2]:65536", 1, 7, "at most 65536 workers"},
        {"[::1", 1, 1, "is not closed"},
        {"[::g]", 1, 2, "IPv6"},
        {"[::1%]", 1, 2, "IPv6"},
        {"[::1%a;b]", 1, 2, "IPv6"},
        {"[::1]x", 1, 6, "after an IPv6 address"},
        {"[::1]:", 1, 7, "the number of workers"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int code = hosts_parse(row[i].text, strlen(row[i].text), &hosts, &error);
        bool good =
            ok(code && error.line == row[i].line && error.column == row[i].column && strstr(error.text, row[i].says),
               "an error: %d:%d %s", row[i].line, row[i].column, row[i].says);
        if (!good) diag("%zu: %d:%d %s; %s", i, error.line, error.column, code ? error.text : "none", printed());
    }
    char user[80], name[HOST_NAME + 1];
    memset(user, 'u', sizeof user);
    user[sizeof user - 1] = '@';
    ok(hosts_parse(user, sizeof user, &hosts, &error) && strstr(error.text, "63 characters"), "a long user is refused");
    memset(name, 'n', sizeof name);
    ok(!hosts_parse(name, HOST_NAME - 1, &hosts, &error), "a name of 127 characters is accepted");
    ok(hosts_parse(name, HOST_NAME, &hosts, &error) && strstr(error.text, "127 characters"),
       "a longer name is refused");
    memset(name, ':', sizeof name);
    ok(hosts_parse(name, sizeof name, &hosts, &error) && strstr(error.text, "127 characters"),
       "a longer address is refused");
    ok(hosts_parse("a\0b", 3, &hosts, &error) && error.column == 2, "a zero byte is an error at its position");
}

/* Checks the result for a random list. If the list is valid (code 0), returns true if its hosts can be passed to
 * ssh safely. Otherwise returns true if the error names a position within the text. */
static bool
is_sound(int code, const char *text, int n)
{
    int lines = 1, slots = 0;
    for (int i = 0; i < n; i++) lines += text[i] == '\n';
    if (code)
        return error.line >= 1 && error.line <= lines && error.column >= 1 && error.column <= n + 1 && *error.text;
    for (int i = 0; i < hosts.n; i++) {
        const struct host *h = &hosts.host[i];
        slots += h->slots;
        if (h->slots < 1 || !*h->name || *h->name == '-' || *h->user == '-' || h->port < 0 || h->port > 65535)
            return false;
        if (strpbrk(h->name, " \t\r\n,;#@[]'\"$`\\/|&<>") || strpbrk(h->user, " \t\r\n,;#@[]'\"$`\\/|&<>:"))
            return false;
    }
    return hosts.n >= 1 && hosts.n <= HOSTS_MOST && slots == hosts.slots;
}

static void
test_any_text(void)
{
    static const char *const piece[] = {"a",  "b", "node", "0",      "1",     "07",        "12",
                                        "[",  "]", "-",    ":",      "::",    ",",         " ",
                                        "\n", "#", "@",    "ssh://", "slots", "max_slots", "=",
                                        "%",  ".", "\xff", "[1-3]",  "[::1]", "[01,3-4]",  "fe80"};
    uint64_t state = seed_of(20251120);
    int bad = 0, good = 0;
    for (int k = 0; k < 200000; k++) {
        char text[256];
        int n = 0, npiece = (int)(next_random(&state) % 14);
        for (int i = 0; i < npiece; i++) {
            const char *p = piece[next_random(&state) % (sizeof piece / sizeof *piece)];
            n += snprintf(text + n, sizeof text - (size_t)n, "%s", p);
        }
        if (n && next_random(&state) % 8 == 0) text[next_random(&state) % (uint64_t)n] = (char)next_random(&state);
        /* copies the text to a buffer of exactly its size, so that a sanitizer finds reads beyond its end */
        char *exact = malloc((size_t)n + 1);
        memcpy(exact, text, (size_t)n);
        char *whole = realloc(exact, (size_t)n ? (size_t)n : 1);
        int code = hosts_parse(whole, (size_t)n, &hosts, &error);
        if (!is_sound(code, whole, n) && bad++ == 0) diag("\"%.*s\"", n, whole);
        good += !code;
        free(whole);
    }
    ok(bad == 0, "every random text gives hosts that are safe for ssh, or an error within the text");
    ok(good > 1000, "many random texts are valid lists (%d)", good);
}

int
main(void)
{
    test_spellings();
    test_errors();
    test_any_text();
    return done();
}
