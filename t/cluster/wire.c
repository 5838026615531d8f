/* Tests of actors/cluster/wire/wire.c: a written packet is read back unchanged, and invalid bytes are refused. */
#include "actors/cluster/wire/wire.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"
#include "t/oracles/packet_print.h"

static uint64_t state;

static struct span
random_span(unsigned char *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) bytes[i] = (unsigned char)next_random(&state);
    return (struct span){bytes, n};
}

/* Returns a packet of this kind in which every field is set, for comparison after a write and a read. A field that
 * the kind does not have is not written, so it is read back as zero. */
static struct packet
sample(int kind, unsigned char bytes[11][64])
{
    uint32_t n = 8 * (uint32_t)(next_random(&state) % 8);
    struct packet p = {.kind = (uint8_t)kind,
                       .epoch = (uint32_t)next_random(&state),
                       .seq = (uint32_t)next_random(&state),
                       .protocol = (uint32_t)next_random(&state),
                       .pid = 7,
                       .cores = 8,
                       .link_ms = 3000,
                       .orphan_ms = 4500,
                       .threads = 9,
                       .world = 10,
                       .run = (uint32_t)next_random(&state),
                       .status = 11,
                       .isa = 17,
                       .flags = 12,
                       .rank = -1,
                       .node = -2,
                       .memory = next_random(&state),
                       .program = next_random(&state),
                       .offset = 13,
                       .total = 14,
                       .count = next_random(&state)};
    struct span *spans[] = {&p.version, &p.host,  &p.machine, &p.devices, &p.text,  &p.segment,
                            &p.bus,     &p.bytes, &p.ranges,  &p.slots,   &p.places};
    for (size_t i = 0; i < countof(spans); i++) *spans[i] = random_span(bytes[i], n);
    p.numbers = p.places;
    p.begun = p.acted = p.slots;
    p.job = random_span(bytes[0], 16);
    p.digest = random_span(bytes[1], next_random(&state) % 2 ? 16 : 0);
    p.secret = p.outline = p.job;
    p.beat = p.bulk = p.port = p.name = p.kernels = p.text;
    p.arenas = p.busy = p.places;
    p.replaces = p.ports = p.bytes;
    p.nslot = 15;
    p.home = 16;
    return p;
}

static void
test_round(void)
{
    unsigned char bytes[11][64];
    for (int kind = 1; kind < NPACKET; kind++) {
        struct packet p = sample(kind, bytes), q;
        struct str first = {0}, again = {0}, a = {0}, b = {0};
        packet_write(&p, &first);
        int status = packet_read(first.text, first.len, &q);
        packet_write(&q, &again);
        packet_print(&p, &a);
        packet_print(&q, &b);
        bool same = first.len == again.len && !memcmp(first.text, again.text, first.len);
        ok(!status && same && !strcmp(str_text(&a), str_text(&b)), "%s is read back unchanged", packet_name(kind));
        bool cut = true, longer;
        for (size_t n = 0; n < first.len && cut; n++) cut = packet_read(first.text, n, &q) == E_BUS;
        str_addn(&first, "", 1);
        longer = packet_read(first.text, first.len, &q) == E_BUS;
        ok(cut && longer, "%s truncated anywhere, or too long, is refused", packet_name(kind));
        first.text[2]++;
        ok(packet_read(first.text, first.len - 1, &q) == E_BUS && strstr(err_text(), "needs protocol"),
           "%s of another protocol is refused, and the message says so", packet_name(kind));
        str_free(&first);
        str_free(&again);
        str_free(&a);
        str_free(&b);
    }
}

/* Checks that packet_read() refuses an unknown error code as a status, because Rille would report another error. */
static void
test_status(void)
{
    static const int kind[] = {PACKET_MADE, PACKET_READY, PACKET_HAVE, PACKET_END, PACKET_FILED, PACKET_VALUE};
    for (size_t i = 0; i < countof(kind); i++) {
        struct packet q;
        int wrong = 0;
        for (uint32_t status = 0; status < 2 * NERR; status++) {
            struct packet p = {.kind = (uint8_t)kind[i], .status = status};
            struct str s = {0};
            packet_write(&p, &s);
            wrong += (packet_read(s.text, s.len, &q) == E_BUS) != (status >= NERR);
            str_free(&s);
        }
        ok(!wrong, "%s is refused if its status is no error code", packet_name(kind[i]));
    }
}

int
main(void)
{
    static const char stranger[] = "a\x1b[31m\n";
    struct str s = {0};
    state = seed_of(3);
    span_print(span_text(stranger), &s);
    is_str(str_text(&s), "a\\x1b[31m\\x0a", "control characters are printed as hex escapes");
    str_free(&s);
    test_round();
    test_status();
    return done();
}
