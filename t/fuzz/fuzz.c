/* fuzz.c - feeds arbitrary bytes to every parser and protocol that untrusted input reaches.
 *
 *   fuzz                      the test: every input of t/fuzz/SUBJECT.tar, and random changes of these inputs
 *   t/fuzz/run.sh [SECONDS]   libFuzzer, which searches inputs that reach new code (clang, RILLE_FUZZ)
 *
 * A subject is a function that feeds an input to the code under test, and asserts invariants for every accepted
 * input. */
#include "actors/cluster/transport/carrier_inner.h"
#include "actors/cluster/transport/carrier_channels.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/worker/worker_files.h"
#include "actors/plan/model/plan.h"
#include "actors/plan/model/program_bytes.h"
#include "actors/plan/verify/verify_program.h"
#include "runtime/base/error.h"
#include "runtime/file/codec/image.h"
#include "runtime/file/llmc.h"
#include "runtime/file/tensors.h"
#include "runtime/text/sentencepiece.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/tiktoken.h"
#include "shell/launch/hosts.h"
#include "t/lib/tap.h"
#include "t/oracles/packet_print.h"
#include "runtime/tensor/atlas.h"

#include <sys/mman.h>
#include <zlib.h>

/* ---- packets ---- */

static void
put(struct str *s, uint64_t v, size_t size)
{
    str_addn(s, &v, size); /* in the byte order that all supported hosts have */
}

/* Checks that a packet has only one encoding: writing a packet that was read must return the same bytes. Inputs omit
 * the protocol version, so that they stay valid when the version changes. */
static void
fuzz_packet(const uint8_t *bytes, size_t n)
{
    struct str one = {0}, again = {0};
    struct packet p;
    put(&one, WIRE_MAGIC | (uint32_t)WIRE_VERSION << 16, 4);
    str_addn(&one, bytes, n);
    if (!packet_read(one.text, one.len, &p)) {
        packet_write(&p, &again);
        assert(again.len == one.len && !memcmp(again.text, one.text, one.len));
        str_clear(&again);
        packet_print(&p, &again);
    }
    str_free(&one);
    str_free(&again);
}

/* The bytes of an input that the subject has not consumed yet. */
struct input {
    const uint8_t *at;
    size_t n;
};

static uint8_t
next_byte(struct input *in)
{
    if (in->n == 0) return 0;
    in->n--;
    return *in->at++;
}

/* Makes a packet from the input. The first bytes state its kind and length, and which fields of its head are wrong
 * (`off`: bits for the sequence number and for the epoch). The body is the next bytes of the input. Returns false
 * if the packet is invalid. */
static bool
next_packet(struct input *in, uint32_t epoch, uint32_t *seq, struct str *room, struct packet *out)
{
    uint8_t kind = next_byte(in), off = next_byte(in);
    size_t n = next_byte(in) | (size_t)(off & 7) << 8;
    n = MIN(n, in->n);
    *seq += off & 64 ? 2 : off & 128 ? 0 : 1;
    str_clear(room);
    put(room, WIRE_MAGIC | (uint32_t)WIRE_VERSION << 16, 4);
    put(room, kind % NPACKET, 4);
    put(room, epoch + (off >> 3 & 1u) - (off >> 4 & 1u), 4);
    put(room, *seq, 4);
    put(room, n, 8);
    str_addn(room, in->at, n);
    in->at += n;
    in->n -= n;
    return !packet_read(room->text, room->len, out);
}

/* ---- a coordinator, and packets on its links ---- */

enum { WORLD = 3, PEERS = 5 };

/* State of the simulated other side, derived from the packets and notices of the coordinator or member under test. */
struct notices {
    struct worker_member *member;
    uint32_t epoch;
    bool full, left;
};

static void
check_packet(const struct packet *p)
{
    struct str s = {0};
    packet_write(p, &s); /* packet_write() asserts that the packet respects all limits */
    str_free(&s);
}

static void
coordinator_sends(void *arg, int peer, const struct packet *p)
{
    struct notices *t = arg;
    UNUSED(peer);
    t->epoch = p->epoch;
    check_packet(p);
}

static void
no_cut(void *arg, int peer)
{
    UNUSED(arg), UNUSED(peer);
}

static void
no_notice(void *arg, const struct notice *n)
{
    if (n->kind == NOTICE_FULL) ((struct notices *)arg)->full = true;
}

static void
begin_epoch(struct coordinator *c)
{
    static const struct range range[] = {{0, 0, WORLD, 0, WORLD, 0}};
    static const uint64_t bytes[WORLD] = {4096, 4096, 4096};
    static struct slot slot[WORLD];
    for (int r = 0; r < WORLD; r++) slot[r] = (struct slot){(uint32_t)coordinator_member(c, r)->memory, (uint32_t)r};
    struct form f = {.threads = 2, .segment = "s", .bus = "b", .nrange = 1, .nslot = WORLD};
    f.range = range;
    f.slot = slot;
    f.bytes = bytes;
    coordinator_form(c, &f);
}

static void
begin_run(struct coordinator *c, uint32_t run)
{
    static const uint64_t at[4] = {1, 2, 3, 4};
    static const struct places places[WORLD] = {{at, 4}, {at, 4}, {at, 4}};
    struct start s = {.program = run % 3, .bytes = "program", .nbyte = 7, .run = run, .places = places};
    coordinator_start(c, &s);
}

static void
save_file(struct coordinator *c, int rank, bool cancel)
{
    static const uint64_t place[2] = {64, 128};
    const struct packet p = {.kind = PACKET_SAVE,
                             .count = 1,
                             .text = span_text("/root/file"),
                             .places = {(const void *)place, sizeof place}};
    coordinator_file(c, rank, &p);
    if (cancel) coordinator_file(c, rank, &(struct packet){.kind = PACKET_CANCEL, .count = 1});
}

/* Makes one of the calls that a controller can make to its coordinator. */
static void
coordinator_act(struct coordinator *c, struct input *in, struct notices *notices, uint32_t *run)
{
    uint8_t what = next_byte(in);
    int peer = next_byte(in) % PEERS;
    enum coordinator_phase phase = coordinator_phase(c);
    struct packet beat;
    switch (what % 8) {
    case 0: coordinator_tick(c); break;
    case 1: coordinator_cut(c, peer, "cut"); break;
    case 2: coordinator_gone(c, peer % WORLD, "gone"); break;
    case 3: coordinator_pulse(c, peer % WORLD, &beat); break;
    case 4: coordinator_stop(c); break;
    case 5: coordinator_forget(c, 1); break;
    case 6:
        if (phase == CLUSTER_BROKEN && coordinator_recover(c, 1 + peer % WORLD)) err_clear();
        break;
    default:
        if (what & 8) save_file(c, peer % WORLD, what & 16);
        if (!(what & 8) && phase == CLUSTER_IDLE) begin_run(c, ++*run);
        break;
    }
    if (notices->full && coordinator_phase(c) == CLUSTER_GATHER) begin_epoch(c);
    notices->full = false;
}

/* Replaces another protocol version in HELLO by the current one, so that inputs of earlier versions stay valid. */
static const struct packet *
as_of_today(struct packet *p)
{
    if (p->kind == PACKET_HELLO && p->protocol <= WIRE_VERSION) p->protocol = WIRE_VERSION;
    return p;
}

static void
fuzz_coordinator(const uint8_t *bytes, size_t n)
{
    struct input in = {bytes, n};
    struct str room = {0};
    struct notices notices = {0};
    uint32_t seq[PEERS] = {0}, run = 0;
    struct coordinator_env env = {&notices, coordinator_sends, no_cut, no_notice};
    struct coordinator_options o = {
        .world = WORLD, .silence = 3, .version = "v", .machine = "m", .beat = "", .bulk = "", .job = "job"};
    struct coordinator *c = coordinator_new(&o, &env);
    while (in.n) {
        struct packet p;
        uint8_t from = next_byte(&in);
        if (from % 8 >= PEERS)
            coordinator_act(c, &in, &notices, &run);
        else if (!next_packet(&in, notices.epoch, &seq[from % 8], &room, &p))
            continue;
        else if (from & 128)
            coordinator_beat(c, &p);
        else
            coordinator_receive(c, from % 8, as_of_today(&p));
        if (notices.full) coordinator_act(c, &(struct input){0}, &notices, &run);
    }
    coordinator_bye(c, 0);
    coordinator_free(&c);
    str_free(&room);
}

/* ---- a worker, and packets from its coordinator ---- */

static void
member_sends(void *arg, const struct packet *p)
{
    UNUSED(arg);
    check_packet(p);
}

static void
member_works(void *arg, const struct work *w)
{
    struct notices *h = arg;
    assert(!h->left && w->kind < NWORK);
    h->epoch = w->epoch;
    h->left = w->kind == WORK_LEAVE;
    if (w->kind == WORK_FORM) member_ready(h->member, w->epoch, 0, "");
    if (w->kind == WORK_MAKE) member_made(h->member, w->epoch, &(struct made){.text = ""});
    if (w->kind == WORK_PROGRAM) member_have(h->member, w->epoch, &(struct have){.program = w->program, .text = ""});
    if (w->kind == WORK_FILE) member_filed(h->member, w->epoch, w->packet->count, 0, "", &(struct str){0});
    if (w->kind == WORK_START)
        member_ended(h->member, &(struct run_end){.epoch = w->epoch, .run = w->packet->run, .text = ""});
}

static void
fuzz_member(const uint8_t *bytes, size_t n)
{
    struct input in = {bytes, n};
    struct str room = {0};
    struct notices h = {0};
    uint32_t seq = 0;
    struct member_env env = {&h, member_sends, member_works, NULL};
    struct member_options o = {.hello = {.kind = PACKET_HELLO, .protocol = WIRE_VERSION}, .silence = 3};
    h.member = member_new(&o, &env);
    member_linked(h.member);
    while (in.n) {
        struct packet p;
        uint8_t from = next_byte(&in);
        if (from % 8 == 7)
            member_tick(h.member);
        else if (next_packet(&in, h.epoch, &seq, &room, &p))
            (from % 8 == 6 ? member_heard(h.member, &p) : member_receive(h.member, &p));
    }
    member_free(&h.member);
    str_free(&room);
}

/* ---- files that a worker is ordered to write and read ---- */

enum { FILE_BYTES = 100000, SEGMENT_BYTES = 1 << 17 };
static char file_folder[64], file_path[80], saved_path[80];

static void
remove_files(void)
{
    unlink(file_path);
    unlink(saved_path);
    rmdir(file_folder);
}

/* Opens a worker that has a folder with a file in it, and a memory segment. */
static void
open_files(struct worker_process *s, uint64_t *digest)
{
    static struct notices h;
    static const struct member_env env = {&h, member_sends, member_works, NULL};
    static const struct member_options o = {.hello = {.kind = PACKET_HELLO, .protocol = WIRE_VERSION}, .silence = 3};
    static char bytes[FILE_BYTES];
    snprintf(file_folder, sizeof file_folder, "%s/t-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    assert(mkdtemp(file_folder) && !atexit(remove_files));
    snprintf(file_path, sizeof file_path, "%s/file", file_folder);
    snprintf(saved_path, sizeof saved_path, "%s/saved", file_folder);
    FILE *f = fopen(file_path, "w");
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7);
    assert(f && fwrite(bytes, sizeof bytes, 1, f) == 1 && !fclose(f));
    *digest = source_digest(bytes, sizeof bytes);
    pthread_mutex_init(&s->lock, NULL);
    assert(!roots_read(file_folder, &s->roots) && !segment_new(SEGMENT_BYTES, &s->shared.segment));
    s->member = member_new(&o, &env);
}

/* Makes requests to write and read files. The first byte of the input chooses the variant. WIDE: positions have 64
 * bits, not 16; OTHER: the digest is wrong; STRANGE: the path is from the input, not that of the worker's file. */
static void
fuzz_files(const uint8_t *bytes, size_t n)
{
    static struct worker_process s;
    static uint64_t digest;
    enum { SAVES = 1, WIDE = 2, OTHER = 4, STRANGE = 8, LATER = 16 };
    struct input in = {bytes, n};
    struct str places = {0};
    if (!s.member) open_files(&s, &digest);
    uint8_t what = next_byte(&in);
    uint64_t sum = digest + (what & OTHER ? 1 : 0);
    struct span path = span_text(what & SAVES ? saved_path : file_path);
    if (what & STRANGE) path = (struct span){in.at, (uint32_t)in.n};
    while (in.n) {
        uint64_t v = 0;
        for (int i = 0; i < (what & WIDE ? 8 : 2); i++) v |= (uint64_t)next_byte(&in) << 8 * i;
        put(&places, v, sizeof v);
    }
    const struct order o = {.work.epoch = 1,
                            .packet = {.kind = what & SAVES ? PACKET_SAVE : PACKET_LOAD,
                                       .count = 1,
                                       .text = path,
                                       .offset = what & LATER ? 1 : 0,
                                       .digests = {(const void *)&sum, sizeof sum},
                                       .places = {(const void *)places.text, (uint32_t)places.len}}};
    worker_files_serve(&s, &o);
    err_clear();
    str_free(&places);
}

/* ---- programs, and the channel lists that connect partitions ---- */

/* Checks the round trip of a program: if the bytes can be read as a program, writing this program must return the
 * same bytes. */
static void
fuzz_program(const uint8_t *bytes, size_t n)
{
    struct atlas *at = atlas_new();
    struct program *g;
    struct str again = {0};
    if (!program_read((const char *)bytes, n, at, &g)) {
        program_write(g, &again);
        assert(again.len == n && !memcmp(again.text, bytes, n));
        program_free(&g);
    }
    str_free(&again);
    atlas_free(&at);
}

/* Reads the input as the channel list of another partition, and matches it with the four channels of this
 * partition to that one: two send, two receive. Each matched channel must have a task and a thread. */
static void
fuzz_channels(const uint8_t *bytes, size_t n)
{
    enum { CHANNELS = 4 };
    static struct task task[CHANNELS];
    static struct channel channel[CHANNELS];
    static struct program program;
    struct channel_far far[CHANNELS];
    struct plan p = {.program = &program, .ntask = CHANNELS, .task = task, .nchannel = CHANNELS, .channel = channel};
    for (int32_t i = 0; i < CHANNELS; i++)
        channel[i] = (struct channel){.name = {.step = i, .from_side = (uint8_t)(i % 3)},
                                      .sends = i % 2,
                                      .peer = 1,
                                      .task = i,
                                      .nreg = 2,
                                      .nact = 1,
                                      .bytes = 64 * (i % 3)};
    if (channels_match(&p, 1, (const char *)bytes, n, far)) return;
    for (int32_t i = 0; i < CHANNELS; i++) assert(far[i].task >= 0 && far[i].thread >= 0);
}

/* ---- packets from other workers ---- */

static void
on_asked(void *of, uint32_t epoch, int from, uint64_t program)
{
    UNUSED(of), UNUSED(epoch), UNUSED(from), UNUSED(program);
}

static void
on_listed(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n)
{
    UNUSED(of), UNUSED(epoch), UNUSED(from), UNUSED(program);
    assert(n == 0 || bytes);
}

static int
on_give(void *of, uint64_t at, size_t n, void *to)
{
    UNUSED(of), UNUSED(at), UNUSED(to);
    assert(n <= PIECE);
    return fail(E_BUS, "no such bytes");
}

static void
on_brought(void *of, int from, uint64_t count, const void *bytes, size_t n)
{
    UNUSED(of), UNUSED(from), UNUSED(count);
    static char copy[PIECE];
    assert(n <= PIECE);
    if (bytes) memcpy(copy, bytes, n);
}

/* Refuses to open a link. The carrier would open one only to answer a fetch. */
static int
no_link(struct carrier *c, int rank)
{
    UNUSED(c);
    assert(rank == 1);
    return fail(E_BUS, "no link");
}
static const struct net nobody = {.connect = no_link};

enum { ACT = PIECE + 100, ACTS = 2 };

/* Opens a carrier in an epoch and a run. Its plan partition has one receive task, and each act of this task receives
 * two chunks. */
static void
open_carrier(struct carrier *c, struct plan *p)
{
    static struct task task;
    static struct view view = {.ndim = 1, .dim = {ACT}, .stride = {1}};
    static struct channel_slice slice = {.view = &view};
    static struct channel channel = {.peer = 1, .nreg = ACTS, .bytes = ACT, .nslice = 1, .slice = &slice};
    static struct channel_far far;
    static struct peer peer[2];
    static const uint32_t owner;
    static _Alignas(64) char segment[1 << 15];
    assert(bus_host_bytes(1) <= sizeof segment);
    memset(segment, 0, sizeof segment);
    bus_host_format(segment, 1);
    assert(!bus_host_map(segment, sizeof segment, 1, &owner, &c->bus));
    assert(!bus_host.open(&(struct bus_options){.nthread = 1, .with = c->bus}, &c->bus));
    c->bus->kind->admit(c->bus, 5);
    *p = (struct plan){.ntask = 1, .task = &task, .nchannel = 1, .channel = &channel};
    far.addr = addr_of(1, 0);
    c->hear = (struct carrier_hear){NULL, on_asked, on_listed, on_give, on_brought, NULL};
    c->net = &nobody;
    c->peer = peer;
    c->carrying = carrier_channels_new(c, p, &far);
    c->joined = true;
    c->world = 2;
    c->epoch = 3;
    c->run = 5;
}

/* Consumes every act that the carrier reports as received. In a run, the thread of the receiving device does this. */
static void
take_acts(struct carrier *c, const struct channel *channel)
{
    static char to[ACT];
    const struct transport *t = carrier_channels_transport(c->carrying);
    const struct carrier_channel *l = &c->carrying->lane[0];
    struct msg m;
    while (bus_recv(c->bus, addr_of(0, 0), &m, 1, BUS_LOOK)) {
        /* consumes the message as the engine does */
        if (m.kind != MSG_FULL || m.task != 0 || m.run != c->run) continue;
        assert(l->came > l->taken);
        assert(!t->take(t->of, 0, channel, to));
    }
}

/* Makes a valid message head. Then each bit that is set in `off` replaces one field by bytes of the input. */
static void
next_head(struct input *in, const struct carrier *c, struct head *h)
{
    uint8_t off = next_byte(in);
    *h = (struct head){.m = {.kind = MSG_FULL, .out = MSG_FAR, .epoch = 3, .run = 5, .from = addr_of(1, 0)}};
    h->offset = (uint64_t)c->carrying->lane[0].offset;
    if (off & 1) h->m.kind = next_byte(in);
    if (off & 2) h->m.out = (uint16_t)(MSG_FAR - next_byte(in));
    if (off & 4) h->m.run = next_byte(in);
    if (off & 8) h->m.task = (uint32_t)(next_byte(in) - 2);
    if (off & 16) h->offset = (uint64_t)next_byte(in) << (next_byte(in) & 63);
    if (off & 32) h->m.epoch = next_byte(in);
    if (off & 64) h->m.to = (uint32_t)next_byte(in) << (next_byte(in) & 31);
    if (off & 128) h->m.from = (uint32_t)next_byte(in) << (next_byte(in) & 31);
}

static void
fuzz_carrier(const uint8_t *bytes, size_t n)
{
    static char piece[PIECE];
    struct input in = {bytes, n};
    struct carrier c = {0};
    struct plan p;
    open_carrier(&c, &p);
    const struct carrier_channel *l = &c.carrying->lane[0];
    while (in.n) {
        struct head h;
        zmq_msg_t body;
        uint8_t what = next_byte(&in);
        next_head(&in, &c, &h);
        size_t size = what & 2 ? (size_t)next_byte(&in) : l->offset ? ACT - PIECE : PIECE;
        for (size_t i = 0; what & 8 && i < sizeof(struct fetch); i++) piece[i] = (char)next_byte(&in);
        zmq_msg_init_data(&body, piece, size, NULL, NULL);
        carrier_take(&c, what & 1 ? BYTES : MESSAGES, &h, &body);
        zmq_msg_close(&body);
        assert(l->came - l->taken <= ACTS);
        if (what & 4) take_acts(&c, p.channel);
    }
    carrier_channels_free(&c.carrying);
    c.bus->kind->close(&c.bus);
}

/* ---- files and texts ---- */

static void
fuzz_key(const uint8_t *bytes, size_t n)
{
    struct key k;
    if (!key_parse((const char *)bytes, n, &k))
        assert(strlen(k.public[KEY_COORDINATOR]) == KEY_TEXT - 1 && (k.secret[0][0] || k.secret[1][0]));
    key_forget(&k);
}

static void
fuzz_hosts(const uint8_t *bytes, size_t n)
{
    static struct hosts h;
    struct hosts_error e = {0};
    int slots = 0;
    if (hosts_parse((const char *)bytes, n, &h, &e)) {
        assert(e.line >= 1 && e.column >= 1 && strlen(e.text) < HOST_ERROR);
        return;
    }
    assert(h.n >= 0 && h.n <= HOSTS_MOST);
    for (int i = 0; i < h.n; i++) {
        assert(h.host[i].name[0] && h.host[i].name[0] != '-' && h.host[i].user[0] != '-' && h.host[i].slots >= 1);
        slots += h.host[i].slots;
    }
    assert(slots == h.slots);
}

static void
fuzz_words(const uint8_t *bytes, size_t n)
{
    struct device_counts devices;
    bool local;
    char *text = must_alloc(n + 1);
    memcpy(text, bytes, n);
    if (link_address(text, &local)) err_clear();
    if (device_counts_parse(text, false, &devices)) err_clear();
    free(text);
}

/* Reads bytes as the head of a tensor file, which is also the manifest format of checkpoints. */
static void
fuzz_head(const struct format *format, const uint8_t *bytes, size_t n)
{
    struct tensors *f;
    char *copy = must_alloc(n + 1);
    memcpy(copy, bytes, n);
    if (tensors_of(source_of_bytes("fuzz", copy, n), format, &f)) return;
    for (int32_t i = 0; i < f->nentry; i++) assert(tensors_find(f, f->entry[i].name) == i);
    tensors_close(&f);
}

static void
fuzz_image(const uint8_t *bytes, size_t n)
{
    struct image image;
    if (image_decode("fuzz", bytes, n, &image)) return;
    assert(image.height > 0 && image.width > 0 && image.height * image.width <= IMAGE_PIXELS);
    free(image.bytes);
}

/* Appends an uncompressed member to a zip file, and its record to the zip's directory. */
static void
zip_add(struct str *zip, struct str *directory, const char *name, const void *bytes, size_t n)
{
    uint64_t at = zip->len, crc = crc32(0, bytes, (uInt)n);
    for (int i = 0; i < 2; i++) {
        struct str *out = i ? directory : zip;
        put(out, i ? 0x02014b50 : 0x04034b50, 4);
        put(out, 0, i ? 8 : 6);   /* versions, flags, method */
        put(out, crc << 32, 8);   /* time, crc */
        put(out, n | n << 32, 8); /* sizes */
        put(out, strlen(name), i ? 8 : 4);
        if (i) put(out, 0, 6), put(out, at, 4);
        str_add(out, name);
    }
    str_addn(zip, bytes, n);
}

/* Reads bytes as the pickle of a file of torch.save. The file has one storage, "0". */
static void
fuzz_torch(const uint8_t *bytes, size_t n)
{
    struct str zip = {0}, directory = {0};
    zip_add(&zip, &directory, "s/data.pkl", bytes, n);
    zip_add(&zip, &directory, "s/data/0", "a storage of 32 bytes of letters.", 32);
    size_t at = zip.len;
    str_addn(&zip, directory.text, directory.len);
    put(&zip, 0x06054b50, 8);
    put(&zip, 2 | 2 << 16, 4), put(&zip, directory.len | at << 32, 8), put(&zip, 0, 2);
    fuzz_head(&format_torch, (const uint8_t *)zip.text, zip.len);
    str_free(&zip);
    str_free(&directory);
}

/* Writes the bytes to a file and calls `take` with the file's path. */
static void
with_file(const uint8_t *bytes, size_t n, void (*take)(const char *path))
{
    char path[32];
    int fd = memfd_create("fuzz", 0);
    assert(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    take(path);
    close(fd);
}

static void
take_tokens(const char *path)
{
    struct token_file f;
    int64_t last;
    if (token_file_open(path, &f)) return;
    assert(f.n >= 0 && (f.n == 0 || !token_file_read(&f, f.n - 1, 1, &last)));
    source_close(&f.source);
}

static void
add_piece(void *whole, const uint8_t *bytes, size_t n)
{
    str_addn(whole, bytes, n);
}

/* Encodes a text with the tokenizer and decodes the ids. The result must equal the joined pieces of the splitter,
 * unless a normaliser or special tokens change the text. */
static void
use_tokenizer(struct tokenizer *t)
{
    static const char text[] = "it's  42 \xff\xc3\xa9 <|x|>";
    struct ids ids = {0};
    struct str back = {0}, pieces = {0};
    int64_t id[sizeof text * 4];
    if (!tokenizer_encode(t, text, sizeof text - 1, &ids) && ids.n <= countof(id)) {
        for (size_t i = 0; i < ids.n; i++) id[i] = ids.list[i];
        assert(!tokenizer_decode(t, ids.n, id, &back));
        assert(!splitter_run(t->splitter, (const uint8_t *)text, sizeof text - 1, 1, add_piece, &pieces));
        assert(t->normal.n || t->nspecial || t->spelled || t->bpe.characters.on ||
               !strcmp(str_text(&back), str_text(&pieces)));
    }
    free(ids.list);
    str_free(&back);
    str_free(&pieces);
}

static void
take_tokenizer(const char *path)
{
    struct tokenizer *t = tokenizer_new();
    if (!tokenizer_read_json(t, path) && !bpe_seal(&t->bpe, path)) use_tokenizer(t);
    tokenizer_free(&t);
}

static void
take_tiktoken(const char *path)
{
    struct tokenizer *t = tokenizer_new();
    if (!tokenizer_read_tiktoken(t, path, "cl100k", 0, NULL, NULL) && !bpe_seal(&t->bpe, path)) use_tokenizer(t);
    tokenizer_free(&t);
}

static void
take_sentencepiece(const char *path)
{
    struct tokenizer *t = tokenizer_new();
    if (!tokenizer_read_sentencepiece(t, path, 0, NULL)) use_tokenizer(t);
    tokenizer_free(&t);
}

/* ---- all subjects ---- */

static const struct subject {
    const char *name;
    void (*take)(const uint8_t *bytes, size_t n);
    void (*take_file)(const char *path); /* called instead of `take`, with the path of a file that has the input */
    const struct format *format;         /* used instead of `take`: format of the file whose head is the input */
} subjects[] = {
    {"packet", .take = fuzz_packet},
    {"coordinator", .take = fuzz_coordinator},
    {"member", .take = fuzz_member},
    {"program", .take = fuzz_program},
    {"channels", .take = fuzz_channels},
    {"carrier", .take = fuzz_carrier},
    {"key", .take = fuzz_key},
    {"hosts", .take = fuzz_hosts},
    {"words", .take = fuzz_words},
    {"safetensors", .format = &format_safetensors},
    {"gguf", .format = &format_gguf},
    {"npz", .format = &format_npz},
    {"npy", .format = &format_npy},
    {"llmc", .format = &format_llmc},
    {"tokens", .take_file = take_tokens},
    {"tokenizer", .take_file = take_tokenizer},
    {"tekken", .take_file = take_tokenizer},
    {"tiktoken", .take_file = take_tiktoken},
    {"files", .take = fuzz_files},
    {"sentencepiece", .take_file = take_sentencepiece},
    {"torch", .take = fuzz_torch},
    {"image", .take = fuzz_image},
};

static void
subject_take(const struct subject *s, const uint8_t *bytes, size_t n)
{
    if (s->take) s->take(bytes, n);
    if (s->take_file) with_file(bytes, n, s->take_file);
    if (s->format) fuzz_head(s->format, bytes, n);
}

#ifdef RILLE_FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const struct subject *chosen;
    const char *name = getenv("RILLE_FUZZ");
    for (size_t i = 0; !chosen && i < countof(subjects); i++)
        if (name && !strcmp(name, subjects[i].name)) chosen = &subjects[i];
    if (!chosen) exit((fprintf(stderr, "fuzz: RILLE_FUZZ must name a subject of t/fuzz/fuzz.c\n"), 2));
    subject_take(chosen, bytes, n);
    return 0;
}
#else

/* Tries the input and 200 random changes of it. The buffer has exactly the input's size, so that ASan finds reads
 * beyond its end. */
static void
try_input(const struct subject *s, const char *input, size_t n, uint64_t *state)
{
    enum { CHANGES = 200 };
    uint8_t *bytes = must_alloc(n ? n : 1);
    memcpy(bytes, input, n);
    subject_take(s, bytes, n);
    for (int i = 0; i < CHANGES && n; i++) {
        bytes[next_random(state) % n] ^= (uint8_t)(1u << next_random(state) % 8);
        subject_take(s, bytes, next_random(state) % 8 ? n : next_random(state) % (n + 1));
    }
    free(bytes);
}

/* Tries each input of an archive in ustar format. An archive is a list of entries: a header of 512 bytes with the
 * size in octal at byte 124, then the data in blocks of 512 bytes. Returns the number of inputs; -1 if the archive
 * does not end with an empty header. */
static int
try_archive(const struct subject *s, const char *tar, size_t n, uint64_t *state)
{
    enum { BLOCK = 512, SIZE_AT = 124 };
    int tried = 0;
    size_t at = 0;
    for (; at + BLOCK <= n && tar[at]; tried++) {
        size_t size = strtoul(tar + at + SIZE_AT, NULL, 8);
        at += BLOCK;
        if (size > n - at) return -1;
        try_input(s, tar + at, size, state);
        at += (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return at + BLOCK <= n ? tried : -1;
}

int
main(void)
{
    uint64_t state = seed_of(1);
    for (size_t i = 0; i < countof(subjects); i++) {
        char path[64], *tar;
        size_t n;
        int tried = -1;
        snprintf(path, sizeof path, "t/fuzz/%s.tar", subjects[i].name);
        if (!source_whole(path, 1 << 22, &tar, &n)) {
            tried = try_archive(&subjects[i], tar, n, &state);
            free(tar);
        }
        ok(tried > 0, "%s: its %d inputs, and random changes of these, do no harm", subjects[i].name, tried);
    }
    return done();
}
#endif
