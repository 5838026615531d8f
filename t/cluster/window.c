/* Tests of actors/cluster/wire/window.c: a window returns the packets that were added and not acknowledged, in order,
 * and packets of several windows share bytes. */
#include "actors/cluster/wire/window.h"
#include "t/lib/tap.h"

enum { WINDOWS = 3, STEPS = 4000, PROGRAM = 3000 };
static uint64_t state;
static unsigned char text[PROGRAM]; /* content of all packets */

/* Returns a packet with random numbers. shared: some of the packet's spans point to these bytes; NULL: all spans
 * point to `text`. */
static struct packet
random_packet(uint32_t seq, struct shared_bytes *shared)
{
    uint32_t at = (uint32_t)(next_random(&state) % PROGRAM), n = (uint32_t)(next_random(&state) % (PROGRAM - at));
    const unsigned char *bytes = shared ? shared->bytes : text;
    struct packet p = {.kind = PACKET_PROGRAM, .seq = seq, .program = next_random(&state), .shared = shared};
    p.offset = at;
    p.bytes = (struct span){bytes + at, n};
    if (next_random(&state) % 2) {
        p.kind = PACKET_FORM;
        p.ranges = (struct span){bytes + at, n / 8 * 4};
        p.slots = (struct span){bytes + at + p.ranges.n, n / 8 * 4};
        p.segment = (struct span){text, n % 100};
    }
    return p;
}

static bool
same_packets(const struct packet *a, const struct packet *b)
{
    struct str x = {0}, y = {0};
    packet_write(a, &x);
    packet_write(b, &y);
    bool same = x.len == y.len && !memcmp(x.text, y.text, x.len);
    str_free(&x);
    str_free(&y);
    return same;
}

/* Returns true if the window has the packets from `first` to the last one. */
static bool
holds_packets(const struct window *w, const struct packet *all, uint32_t first)
{
    struct packet p;
    uint32_t seq = first;
    bool good = true;
    for (size_t at = 0; good && window_next(w, &at, &p); seq++) good = same_packets(&p, &all[seq]);
    return good && seq == w->last + 1 && w->n == (int32_t)(seq - first);
}

/* Adds and acknowledges packets of several windows in random order. */
static void
test_order(void)
{
    static struct packet all[WINDOWS][STEPS + 2];
    struct window w[WINDOWS] = {0};
    uint32_t first[WINDOWS] = {1, 1, 1};
    struct shared_bytes *shared = shared_bytes_new(text, sizeof text);
    bool good = true;
    for (int step = 0; step < STEPS && good; step++) {
        int i = (int)(next_random(&state) % WINDOWS);
        uint32_t seq = w[i].last + 1;
        all[i][seq] = random_packet(seq, next_random(&state) % 2 ? shared : NULL);
        window_add(&w[i], &all[i][seq]);
        if (next_random(&state) % 4 == 0) {
            first[i] += (uint32_t)(next_random(&state) % (uint64_t)(w[i].n + 1));
            window_acknowledge(&w[i], first[i] - 1);
        }
        good = holds_packets(&w[i], all[i], first[i]);
    }
    ok(good, "a window returns the packets that are not acknowledged, in order and unchanged");
    for (int i = 0; i < WINDOWS; i++) window_free(&w[i]);
    ok(shared->refs == 1, "freed windows do not refer to shared bytes");
    shared_bytes_drop(shared);
}

/* Fills a window beyond its limit, and checks that the newest packets remain. */
static void
test_limit(void)
{
    struct window w = {0};
    struct packet p = {.kind = PACKET_PROGRAM, .bytes = {text, sizeof text}}, out = {0};
    for (p.seq = 1; p.seq <= 2 * WINDOW_BYTES / PROGRAM; p.seq++) window_add(&w, &p);
    size_t at = 0;
    bool there = window_next(&w, &at, &out);
    ok(there && w.kept.len - w.oldest <= WINDOW_BYTES && w.n > WINDOW_BYTES / PROGRAM * 9 / 10,
       "a window drops its oldest packets above its limit, and keeps almost as many bytes as the limit");
    ok(out.seq == w.last - (uint32_t)w.n + 1, "the packets that remain are the newest ones");
    window_free(&w);
}

int
main(void)
{
    state = seed_of(5);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)next_random(&state);
    test_order();
    test_limit();
    return done();
}
