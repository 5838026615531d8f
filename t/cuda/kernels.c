/* kernels.c - compares the GPU kernels with the reference.
 *
 * The test compiles the sources that kernels/cuda generates for the host (t/host/shim.h), and runs them there with
 * thread orders drawn from seeds. It tries samples of every operator in every dtype, on dense, strided, repeated,
 * overlapping and unaligned memory, also with NaN and infinities; reductions of boxing (redistribution), bit for
 * bit; data checks; and fused chains that begin with a row kernel. It lists operators without a kernel. If the
 * plug-in was built, NVRTC compiles an eighth of the sources per turn, for one GPU architecture. ONLY=matmul tries
 * only that operator. "t/bin/cuda kernels FILE" also writes the sources to FILE. Instead of FILE, `table` prints the
 * table of docs/cuda.md, `names` prints the values of ONLY, and `gpu` uses GPU 0. */
#include "boxing/box.h"
#include "boxing/reduce.h"
#include "kernels/cuda/making.h"
#include "kernels/op/lib/lookup.h"
#include "kernels/op/base/table.h"
#include "runtime/base/denormal.h"
#include "runtime/file/disk/file.h"
#include "runtime/data/hash.h"
#include "runtime/data/str.h"
#include "t/lib/kernel/cuda-epilogue.h"
#include "t/lib/kernel/cuda-samples.h"
#include "t/lib/kernel/gpu.h"
#include "t/lib/kernel/trial.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

static const char by_host[] = " expert_blocks from_blocks linear_blocks recurrence recurrence_grad to_blocks ";

typedef long run_fn(const void *words, long blocks, int threads, uint64_t seed);
enum { MATES = 3 };
struct work {
    struct sum *sum; /* reduction of boxing (redistribution) that is tested; NULL: a sample is tested */
    bool looks;      /* true: tests the sample's data check, not its kernel */
    struct finding want;
    struct epilogue *led; /* fused chain that begins with the sample; NULL: none */
    struct trial trial;
    struct cuda_source source;
    const char *memory;
    char text[128];
    bool strange;
    /* source of a bundle: one launch that runs several works of equal source. Set only in the first of these works */
    struct cuda_source many;
    struct work *mate[MATES];
    int nmate;
    bool taken; /* true: the work belongs to the share of this run; the host compiles and runs only such works */
    struct work *next;
};
static bool on_gpu; /* true: this run tests all works on a GPU */
static struct work *works, **last = &works;
static int64_t nwork, nrefused;

static void
append(struct work *w)
{
    *last = w;
    last = &w->next;
    w->taken = on_gpu || share_next();
    nwork++;
}

/* ---- choosing what is tested ---- */

static bool
is_by_host(const struct op *op)
{
    char name[64]; /* the host computes the operators of the list, even for tensors on GPUs */
    snprintf(name, sizeof name, " %s ", op->name);
    return strstr(by_host, name) || op->attr[0].kind == ATTR_BODY; /* the operators of a body have kernels */
}

static bool
is_tried(const char *name)
{
    return !getenv("ONLY") || !strcmp(getenv("ONLY"), name);
}

/* Adds a test of the operator's kernel for this sample. Returns false if the operator has no kernel. */
static bool
add_work(const struct op *op, const char *text, enum memory m, uint64_t seed)
{
    struct work *w = must_alloc(sizeof *w);
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    if (!trial_open(&w->trial, op, text, m, seed)) return trial_close(&w->trial), free(w), false;
    kcall_of(&w->trial, &w->trial.sample.call, w->trial.want, view, data, &k);
    if (cuda_source_call(&w->trial.arena, &k, &w->source)) return trial_close(&w->trial), free(w), false;
    if (ref_run(&k)) {
        ok(false, "%s %s: the reference runs", op->name, text);
        diag("%s", err_text());
    }
    snprintf(w->text, sizeof w->text, "%s", text);
    w->memory = memory_text[m];
    w->strange = strange;
    append(w);
    return true;
}

static void
add_operator(const struct op *op, uint64_t seed)
{
    static const char *const dtype[] = {"f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool"};
    char text[128];
    bool has = false, tried = false;
    if (op->flags & OP_MOVE) return; /* skips operators that only move data */
    for (size_t d = 0; d < countof(dtype); d++)
        for (int i = 0; i < (d ? 2 : OP_SAMPLE) && op->sample[i]; i++) {
            if (!trial_retype(op, op->sample[i], dtype[d], text, sizeof text)) continue;
            if (d > 0 && !strcmp(text, op->sample[i])) continue;
            tried = true;
            for (int m = 0; m < NMEMORY; m++)
                if ((m == DENSE || !(op->flags & OP_SOURCE)) && (d == 0 || m == DENSE || m == TURNED))
                    has |= add_work(op, text, (enum memory)m, seed + (uint64_t)i);
            strange = true;
            has |= add_work(op, text, DENSE, seed + (uint64_t)i);
            strange = false;
        }
    bool lines = op->gpu.line || op->gpu.pass || op->host.folds != RED_NONE;
    for (int i = 0; lines && i < OP_SAMPLE && op->sample[i]; i++) {
        char squared[128];
        square(op->sample[i], squared, sizeof squared);
        if (trial_retype(op, squared, "f32", text, sizeof text)) add_work(op, text, DENSE, seed + (uint64_t)i);
    }
    if (tried)
        ok(has != is_by_host(op), "%s %s", op->name, has ? "has a kernel" : "is computed by the host, and is listed");
}

static void
add_long(uint64_t seed)
{
    for (size_t i = 0; i < countof(long_samples); i++)
        for (int m = 0; m < NMEMORY && is_tried(long_samples[i].op); m++)
            add_work(op_find(long_samples[i].op), long_samples[i].text, (enum memory)m, seed);
}

static void
add_warps(uint64_t seed)
{
    static const enum memory memory[] = {DENSE, ASTRAY, REPEATED};
    for (size_t i = 0; i < countof(warp_samples); i++)
        for (size_t m = 0; m < countof(memory) && is_tried(warp_samples[i].op); m++)
            add_work(op_find(warp_samples[i].op), warp_samples[i].text, memory[m], seed);
    strange = true;
    for (size_t i = 0; i < countof(warp_samples); i++)
        if (is_tried(warp_samples[i].op)) add_work(op_find(warp_samples[i].op), warp_samples[i].text, DENSE, seed);
    strange = false;
}

/* Tests a data check with up to nbad invalid elements. Kernel and host must report the same one, the first. */
static void
add_look(const struct op *op, const char *text, enum memory m, int nbad, uint64_t seed)
{
    static const int64_t bad[] = {-1, 0, 1 << 20, INT64_MAX, INT64_MIN};
    struct work *w = must_alloc(sizeof *w);
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct allowed allowed = {0};
    struct kcall k;
    bool open = trial_open(&w->trial, op, text, m, seed);
    if (open) kcall_of(&w->trial, &w->trial.sample.call, w->trial.want, view, data, &k);
    if (open) op->host.allows(&k, &allowed);
    const struct view *x = &view[allowed.operand];
    if (!open || x->dtype == DT_NONE) trial_close(&w->trial), free(w), w = NULL;
    if (!w) return;
    for (int i = 0; i < nbad && view_numel(x); i++) {
        int64_t at = (int64_t)(next_random(&seed) % (uint64_t)view_numel(x));
        elem_set_i(x->dtype, x->data, address_of(x, at), bad[next_random(&seed) % countof(bad)]);
    }
    k.find = &w->want;
    lookup_find(&k);
    if (cuda_source_find(&w->trial.arena, &k, &w->source)) ok(false, "%s %s: %s", op->name, text, err_text());
    snprintf(w->text, sizeof w->text, "%s", text);
    w->memory = memory_text[m];
    w->looks = true;
    append(w);
}

static void
add_looks(uint64_t seed)
{
    static const char *const large[] = {"embedding", "i64{9000}<9 f32{9,1}", "divisor", "i32{3,30000}>1"};
    for (int i = 0; i < op_count; i++)
        for (int s = 0; op_table[i]->host.allows && s < OP_SAMPLE && op_table[i]->sample[s]; s++)
            for (int m = 0; m < NMEMORY && is_tried(op_table[i]->name); m++)
                for (int n = 0; n <= 3; n++) add_look(op_table[i], op_table[i]->sample[s], (enum memory)m, n, seed++);
    for (int i = 0; i < 4; i += 2)
        for (int n = 0; n <= 12 && is_tried(large[i]); n += 3)
            add_look(op_find(large[i]), large[i + 1], DENSE, MIN(n, 3), seed++);
}

/* A reduction of boxing (redistribution). Combines the strided sources in[0], in[1], ... into `to`. */
struct sum {
    enum reduce reduce;
    int n;
    struct tensor in[5], got, want;
};

static void
add_sum(enum reduce r, enum dtype from, enum dtype to, int n, uint64_t seed)
{
    struct work *w = must_alloc(sizeof *w);
    struct sum *s = w->sum = must_alloc(sizeof *s);
    struct type in = type_of(from, 2, (int64_t[]){5, 7}), out = type_of(to, 2, (int64_t[]){5, 7});
    struct view view[countof(s->in)];
    s->reduce = r;
    s->n = n;
    make_tensor(&s->got, &out, DENSE);
    make_tensor(&s->want, &out, DENSE);
    for (int i = 0; i < n; i++) {
        make_tensor(&s->in[i], &in, GAPS);
        view[i] = s->in[i].view;
        for (int64_t k = 0; k < 35; k++) {
            double x = (double)(next_random(&seed) >> 11) * 0x1p-50 - 4;
            elem_set_f(from, view[i].data, address_of(&view[i], k), from == DT_BOOL ? x > 0 : k % 9 ? x : NAN);
        }
    }
    if (n == 0)
        box_fill(r, &s->want.view);
    else
        box_reduce(r, &s->want.view, n, view);
    snprintf(w->text, sizeof w->text, "%s of %d %s as %s", reduce_text(r), n, dtype_text(from), dtype_text(to));
    if (!ok(!cuda_source_combine(&w->trial.arena, r, n, view, &s->got.view, &w->source), "%s has a kernel", w->text)) {
        diag("%s", err_text());
        return;
    }
    append(w);
}

static void
add_sums(uint64_t seed)
{
    static const enum dtype whole[] = {DT_F32, DT_F64, DT_I32, DT_I64, DT_U8, DT_BOOL};
    for (int r = RED_SUM; r <= RED_MIN; r++) /* reductions without addends, which write the identity in every dtype */
        for (int d = DT_NONE + 1; d < NDTYPE; d++) add_sum((enum reduce)r, (enum dtype)d, (enum dtype)d, 0, seed);
    for (int n = 1; n <= 5; n += 2) {
        for (size_t d = 0; d < countof(whole); d++)
            for (int r = RED_SUM; r <= RED_MIN; r++) add_sum((enum reduce)r, whole[d], whole[d], n, seed++);
        for (int r = RED_MAX; r <= RED_MIN; r++) add_sum((enum reduce)r, DT_BF16, DT_BF16, n, seed++);
        add_sum(RED_SUM, DT_F32, DT_BF16, n, seed++);
        add_sum(RED_SUM, DT_F32, DT_F16, n, seed++);
    }
}

/* ---- fused chains led by row kernels ---- */

static void
add_led(const struct op *op, const char *text, enum memory m, const struct led_chain *chain, enum memory more,
        uint64_t seed)
{
    struct work *w = must_alloc(sizeof *w);
    bool one;
    if (!trial_open(&w->trial, op, text, m, seed)) return;
    w->led = arena_alloc(&w->trial.arena, sizeof *w->led);
    bool has = led_open(w->led, chain, &w->trial, more, seed, &one, &w->source);
    snprintf(w->text, sizeof w->text, "%s, then %s, %s", text, chain->text, memory_text[more]);
    if (!has || (!one && more == DENSE)) ok(false, "%s %s: %s", op->name, w->text, err_text());
    err_clear();
    nrefused += !one;
    if (!has || !one) return;
    w->memory = memory_text[m];
    w->strange = strange;
    append(w);
}

/* Adds n chains that begin with the sample, in several memory layouts, some misaligned or with special values. */
static void
add_leds(const struct op *op, const char *text, size_t n, uint64_t seed)
{
    static const enum memory more[] = {ASTRAY, TURNED, GAPS, REPEATED};
    static size_t turn;
    if (!(op->flags & OP_LEADS) || !(op->gpu.line || op->gpu.pass)) return;
    for (; n > 0; n--, turn++) {
        const struct led_chain *chain = &led_chains[turn % countof(led_chains)];
        add_led(op, text, DENSE, chain, DENSE, seed + n);
        add_led(op, text, turn % 3 ? DENSE : ASTRAY, chain, more[turn % countof(more)], seed + n);
        strange = true;
        add_led(op, text, DENSE, chain, DENSE, seed + n);
        strange = false;
    }
}

static void
add_all_led(uint64_t seed)
{
    static const char *const dtype[] = {"f32", "bf16", "f64"};
    char text[128];
    for (int i = 0; i < op_count; i++)
        for (size_t d = 0; d < countof(dtype); d++)
            for (int s = 0; s < OP_SAMPLE && op_table[i]->sample[s] && is_tried(op_table[i]->name); s++)
                if (trial_retype(op_table[i], op_table[i]->sample[s], dtype[d], text, sizeof text) && (d == 0 || s < 2))
                    add_leds(op_table[i], text, s + d ? 1 : countof(led_chains), seed++);
    for (size_t i = 0; i < countof(warp_samples); i++)
        if (is_tried(warp_samples[i].op)) add_leds(op_find(warp_samples[i].op), warp_samples[i].text, 2, seed++);
    for (size_t i = 0; i < countof(long_samples); i++)
        if (is_tried(long_samples[i].op)) add_leds(op_find(long_samples[i].op), long_samples[i].text, 1, seed++);
}

/* ---- bundles: one launch for several calls with equal sources ---- */

static uint64_t
hash_of(const struct cuda_source *s)
{
    return strtoull(s->name + strlen(s->name) - 16, NULL, 16);
}

/* Returns true if the test bundles this call: all reductions and updates, and some other calls. */
static bool
is_bundled(const struct work *w)
{
    if (!w->taken || w->looks || w->led || w->source.then || w->source.scratch_bytes ||
        !strcmp(w->source.engine, "product"))
        return false;
    return w->sum || w->trial.sample.call.op->flags & OP_UPDATE || hash_of(&w->source) % 16 == 0;
}

static void
add_bundles(void)
{
    struct hash_table first = {0};
    for (struct work *w = works, *leader; w; w = w->next) {
        uint32_t at = 0;
        if (!is_bundled(w)) continue;
        leader = hash_next(&first, hash_of(&w->source), &at);
        if (!leader) hash_add(&first, hash_of(&w->source), leader = w);
        /* the array has MATES places; further members overwrite the last one */
        leader->mate[MIN(leader->nmate, MATES - 1)] = w;
        leader->nmate++;
        if (leader->nmate == 2) cuda_source_many(&leader->trial.arena, &leader->source, &leader->many);
    }
    hash_free(&first);
}

/* ---- writing each source once ---- */

enum { SHARES = 24, TURNS = 8 }; /* of SHARES shares of the sources, a run (turn) compiles SHARES / TURNS for GPUs */

/* Returns source i of a work; NULL: none. 0: kernel; 1: bundle; 2, 3: first kernel and further steps of a chain. */
enum { SOURCES = 4 };
static const struct cuda_source *
source_of(const struct work *w, int i)
{
    const struct cuda_source *all[SOURCES] = {&w->source, w->many.room ? &w->many : NULL,
                                              w->led ? &w->led->alone : NULL, w->led ? &w->led->then : NULL};
    return all[i];
}

/* Writes one source to the file. Returns false if the source belongs to another share or was written before. */
static bool
write_text(FILE *f, int share, struct hash_table *seen, const struct work *w, const struct cuda_source *s)
{
    uint64_t hash = hash_of(s) ^ (uint64_t)(s->room > 0);
    uint32_t at = 0;
    if (hash_next(seen, hash, &at)) return false;
    hash_add(seen, hash, (void *)(uintptr_t)s);
    if (share >= 0 && hash % SHARES != (uint64_t)share) return false;
    fprintf(f, "/* %s %s */\n%s", w->sum ? "" : w->trial.sample.call.op->name, w->text, s->text);
    if (share < 0) fprintf(f, "SHIM_KERNEL(%s)\n", s->name);
    return true;
}

/* Writes the sources of a share (-1: all, with entry points for the host). Returns the number of sources. */
static int
write_texts(FILE *f, int share)
{
    struct hash_table seen = {0};
    int n = 0;
    for (struct work *w = works; w; w = w->next)
        for (int i = 0; i < SOURCES; i++)
            for (const struct cuda_source *s = source_of(w, i); s && (w->taken || share >= 0); s = s->then)
                n += write_text(f, share, &seen, w, s);
    hash_free(&seen);
    return n;
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZE "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
enum { SANITIZED = true };
#else
#define SANITIZE "" /* compiles without sanitizers, which would double the compile time */
enum { SANITIZED = false };
#endif

/* Compiles the sources into a library for the host. Returns NULL if compilation fails. */
static void *
compile(const char *dir)
{
    char path[256], line[1024];
    snprintf(path, sizeof path, "%s/kernels.cpp", dir);
    FILE *f = fopen(path, "w");
    if (!f) return NULL;
    fprintf(f, "#include \"t/host/shim.h\"\n#include \"kernels/cuda/device.cuh\"\n#include \"kernels/cuda/lines.cuh\"\n"
               "#include \"kernels/cuda/members.cuh\"\n");
    int n = write_texts(f, -1);
    fclose(f);
    diag("%d texts for %lld calls; %lld chains have no source", n, (long long)nwork, (long long)nrefused);
    snprintf(line, sizeof line,
             "c++ -std=c++17 -O0 -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function "
             "-Wno-unused-variable -Wno-unused-but-set-variable -Werror " SANITIZE
             " $CXXFLAGS -shared -fPIC -I. -o %s/kernels.so %s >&2",
             dir, path);
    if (!ok(system(line) == 0, "the sources compile for the host without warnings")) return NULL;
    snprintf(path, sizeof path, "%s/kernels.so", dir);
    return dlopen(path, RTLD_NOW);
}

static run_fn *
entry(void *lib, const struct cuda_source *s)
{
    char name[CUDA_WHAT + 32];
    run_fn *fn;
    snprintf(name, sizeof name, "run_%s", s->name);
    *(void **)&fn = dlsym(lib, name);
    return fn;
}

/* ---- on a GPU ---- */

static int
list_one(const struct cuda_source *s, struct hash_table *seen, int n, const char **name, const char **text)
{
    uint64_t hash = hash_of(s) ^ (uint64_t)(s->room > 0);
    uint32_t at = 0;
    if (hash_next(seen, hash, &at)) return n;
    hash_add(seen, hash, (void *)(uintptr_t)s);
    if (name) name[n] = s->name, text[n] = s->text;
    return n + 1;
}

/* Lists the name and text of each source once. name: NULL: only counts. Returns the number of sources. */
static int
list_texts(const char **name, const char **text)
{
    struct hash_table seen = {0};
    int n = 0;
    for (struct work *w = works; w; w = w->next)
        for (int i = 0; i < SOURCES; i++)
            for (const struct cuda_source *s = source_of(w, i); s; s = s->then) n = list_one(s, &seen, n, name, text);
    hash_free(&seen);
    return n;
}

static void
compile_for_this(void)
{
    size_t room = (size_t)list_texts(NULL, NULL);
    const char **name = must_alloc(room * sizeof *name), **text = must_alloc(room * sizeof *text);
    int n = list_texts(name, text);
    ok(gpu_compile(n, name, text), "%d sources compile for %s, sm_%d%d", n, gpu_is.name, gpu_is.major, gpu_is.minor);
    free(name);
    free(text);
}

static void *
kernel_of(const struct cuda_source *s)
{
    static struct hash_table loaded;
    uint64_t hash = hash_of(s) ^ (uint64_t)(s->room > 0);
    uint32_t at = 0;
    void *kernel = hash_next(&loaded, hash, &at);
    if (!kernel) hash_add(&loaded, hash, kernel = gpu_kernel(s->name));
    return kernel;
}

/* Runs one kernel source. lib: library of the kernels for the host; NULL: runs on a GPU. */
static void
play(void *lib, const struct cuda_source *s, int64_t blocks, const uint64_t *word, int64_t nword, uint64_t seed)
{
    if (blocks == 0) return;
    if (gpu_plugin)
        gpu_launch(kernel_of(s), blocks, s->parts.threads, word, nword, s->name);
    else
        entry(lib, s)(word, (long)blocks, s->parts.threads, seed);
}

/* maximum number of blocks per launch; row kernels must give the same bits for any power of two */
static int64_t most_blocks = INT64_MAX;

/* Launches the kernels of a source in their order, because some sources need several passes. */
static void
launch(void *lib, const struct cuda_source *s, int nin, void *const *in, void *const *out, void *scratch,
       uint64_t piece, uint64_t seed)
{
    for (; s; s = s->then) {
        uint64_t *word = must_alloc(sizeof *word * (size_t)s->nword);
        cuda_source_fill(s, nin, in, out, scratch, piece, word);
        play(lib, s, MIN(s->blocks, most_blocks), word, s->nword, seed);
        free(word);
    }
}

static void
run(struct work *w, void *lib, struct tensor *out, uint64_t seed)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    const struct call *c = &w->trial.sample.call;
    kcall_of(&w->trial, c, out, view, data, &k);
    void *scratch = trial_take(w->source.scratch_bytes + 1);
    launch(lib, &w->source, c->nin, data, data + c->nin, scratch, k.piece, seed);
    trial_give(scratch);
}

static void
check_look(struct work *w, void *lib, uint64_t seed)
{
    struct finding *found = trial_take(w->source.scratch_bytes + sizeof *found);
    void *in[SAMPLE_IN];
    const struct call *c = &w->trial.sample.call;
    int64_t n = w->source.blocks, first = 0;
    for (int i = 0; i < c->nin; i++) in[i] = w->trial.in[i].view.data;
    launch(lib, &w->source, c->nin, in, NULL, found, 0, seed);
    while (first < n - 1 && !found[first].at) first++;
    bool good = n == 0 || found[first].at == 0 ? w->want.at == 0 : !memcmp(&found[first], &w->want, sizeof w->want);
    if (!ok(good, "%s %s, %s: the check finds the same invalid element as the host, at %lld", c->op->name, w->text,
            w->memory, (long long)w->want.at))
        diag("at %lld: %lld", (long long)found[first].at, (long long)found[first].value[0]);
    trial_give(found);
}

static void
check_sum(struct work *w, void *lib, uint64_t seed)
{
    void *in[countof(w->sum->in)], *out[] = {w->sum->got.view.data};
    for (int i = 0; i < w->sum->n; i++) in[i] = w->sum->in[i].view.data;
    launch(lib, &w->source, w->sum->n, in, out, NULL, 0, seed);
    ok(trial_same(&w->sum->got.view, &w->sum->want.view), "%s: the same bits as boxing", w->text);
}

/* Runs the chain as two kernels, then as one, and compares the bits. */
static void
check_led(struct work *w, void *lib, uint64_t seed)
{
    struct epilogue *l = w->led;
    const struct fuse_step *lead = &l->step[l->lead];
    void *in[LED_IN], *from[LED_IN], *got[LED_OUT], *want[LED_OUT], *made[OP_OUT], *to[LED_OUT];
    void *scratch = trial_take(MAX(w->source.scratch_bytes, l->alone.scratch_bytes) + 1);
    int nlead = l->nin - LED_MORE;
    bool same = true;
    for (int i = 0; i < l->nin; i++) in[i] = i < nlead ? w->trial.in[i].view.data : l->more[i - nlead].view.data;
    made[0] = from[0] = l->first.view.data;
    for (int i = 1; i < l->nthen; i++) from[i] = in[l->from[i]];
    for (int i = 0; i < l->nout; i++) got[i] = l->got[i].view.data, want[i] = l->want[i].view.data;
    for (int k = 1; k < lead->call->nout; k++) made[k] = want[lead->others + k - 1];
    for (int i = 0; i < l->nlast; i++) to[i] = want[l->last[i]];
    uint64_t mode = denormals_flush();
    launch(lib, &l->alone, nlead, in, made, scratch, 0, seed);
    launch(lib, &l->then, l->nthen, from, to, NULL, 0, seed);
    launch(lib, &w->source, l->nin, in, got, scratch, 0, seed + 1);
    denormals_restore(mode);
    for (int i = 0; i < l->nout; i++)
        same &= trial_same(&l->got[i].view, i == lead->out ? &l->first.view : &l->want[i].view);
    if (!ok(same, "%s %s, %s%s: one kernel gives the same bits as two", lead->call->op->name, w->text, w->memory,
            w->strange ? ", special values" : ""))
        diag("%s", w->source.name);
    trial_give(scratch);
}

static void
check(struct work *w, void *lib, uint64_t seed)
{
    if (w->sum) {
        check_sum(w, lib, seed);
        return;
    }
    if (w->led) {
        check_led(w, lib, seed);
        return;
    }
    if (w->looks) {
        check_look(w, lib, seed);
        return;
    }
    const struct call *c = &w->trial.sample.call;
    uint64_t mode = denormals_flush();
    run(w, lib, w->trial.got, seed);
    if (!strcmp(w->source.engine, "line")) most_blocks = 1;
    run(w, lib, w->trial.again, seed + 1);
    most_blocks = INT64_MAX;
    denormals_restore(mode);
    double worst = 0;
    bool same = true;
    for (int i = 0; i < c->nout; i++) {
        worst = fmax(worst, distance(&w->trial.got[i].view, &w->trial.want[i].view));
        same &= !memcmp(w->trial.got[i].memory, w->trial.again[i].memory, (size_t)type_bytes(&c->out[i]));
    }
    bool good = ok(worst <= 1 && same, "%s %s, %s%s: the %s kernel equals the reference in any order of threads",
                   c->op->name, w->text, w->memory, w->strange ? ", special values" : "", w->source.engine);
    if (!good) diag("%g times the allowed error; the orders agree: %d; %s", worst, same, w->source.name);
}

/* Fills in the launch parameters of a call, with results in fresh memory. Returns the number of results. */
static int
fill_mate(struct work *w, uint64_t *word, struct tensor **got, struct tensor **want)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k = {0};
    int nin = w->sum ? w->sum->n : w->trial.sample.call.nin, nout = w->sum ? 1 : w->trial.sample.call.nout;
    *got = w->sum ? &w->sum->got : w->trial.again;
    *want = w->sum ? &w->sum->want : w->trial.got;
    if (!w->sum) kcall_of(&w->trial, &w->trial.sample.call, *got, view, data, &k);
    for (int i = 0; w->sum && i < nin; i++) data[i] = w->sum->in[i].view.data;
    for (int i = 0; i < nout; i++) {
        data[nin + i] = (*got)[i].view.data;
        memset((*got)[i].memory, 0x55, (size_t)view_bytes(&(*got)[i].view));
    }
    cuda_source_fill(&w->source, nin, data, data + nin, NULL, k.piece, word);
    return nout;
}

static void
check_bundle(struct work *w, void *lib, uint64_t seed)
{
    const struct cuda_source *s = &w->many;
    int n = MIN(MIN(w->nmate, MATES), s->room), nout[MATES], blocks = 0;
    struct tensor *got[MATES], *want[MATES];
    uint64_t *word = must_alloc(sizeof *word * (size_t)(s->room * (s->nword + 1)));
    bool same = true;
    for (int i = 0; i < n; i++) {
        word[i] = (uint64_t)(blocks += (int)w->mate[i]->source.blocks);
        nout[i] = fill_mate(w->mate[i], word + s->room + i * s->nword, &got[i], &want[i]);
    }
    uint64_t mode = denormals_flush();
    play(lib, s, blocks, word, (int64_t)s->room * (s->nword + 1), seed);
    denormals_restore(mode);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < nout[i]; k++)
            same &= w->sum ? trial_same(&got[i][k].view, &want[i][k].view)
                           : !memcmp(got[i][k].memory, want[i][k].memory, (size_t)view_bytes(&got[i][k].view));
    ok(same, "%s %s: %d calls in one launch give the same bits as separate launches",
       w->sum ? "" : w->trial.sample.call.op->name, w->text, n);
    free(word);
}

/* ---- the table of docs/cuda.md ---- */

/* Returns the name of the engine of an operator's kernels; "host" if the host computes it; "" for composites. */
static const char *
engine_of(const struct op *op)
{
    for (struct work *w = works; w; w = w->next)
        if (!w->sum && !w->looks && !w->led && w->trial.sample.call.op == op) return w->source.engine;
    return is_by_host(op) ? "host" : "";
}

static void
add_rows(struct str *s)
{
    static const char *const engine[] = {"each", "line", "product", "copy", "host"};
    for (size_t e = 0; e + !by_host[0] < countof(engine); e++) {
        const char *before = "";
        str_addf(s, "| %s | ", engine[e]);
        for (int i = 0; i < op_count; i++) {
            if (strcmp(engine_of(op_table[i]), engine[e])) continue;
            str_addf(s, "%s%s", before, op_table[i]->name);
            before = ", ";
        }
        str_add(s, " |\n");
    }
}

static void
check_table(void)
{
    struct str rows = {0};
    char *docs = NULL;
    size_t n;
    add_rows(&rows);
    bool good = !file_read_text("docs", "docs/cuda.md", 1 << 20, &docs, &n) && strstr(docs, str_text(&rows));
    if (!ok(good, "docs/cuda.md has the table of operators")) diag("t/bin/cuda kernels table prints it");
    free(docs);
    str_free(&rows);
}

/* ---- compiling sources by NVRTC for GPU architectures ---- */

/* Compiles one share of the sources for one of six GPU architectures. */
static void
compile_share(const struct cuda_plugin *p, const char *compiler, int share, uint64_t turn)
{
    static const struct {
        int major, minor;
    } kind[] = {{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}};
    size_t i = ((uint64_t)share / TURNS + turn / TURNS) % countof(kind), n = 0;
    struct str text = {0};
    char *texts = NULL;
    FILE *f = open_memstream(&texts, &n);
    int count = write_texts(f, share);
    fclose(f);
    str_add(&text, cuda_device_text);
    str_add(&text, texts);
    struct gpu_compiling c = {.plugin = p, .text = str_text(&text), .major = kind[i].major, .minor = kind[i].minor};
    gpu_compile_apart(&c);
    if (!ok(!c.why && c.bytes > 0, "%s compiles share %d, %d sources, for sm_%d%d", compiler, share, count, c.major,
            c.minor))
        diag("%s", c.why);
    free((void *)c.why);
    free(c.binary);
    free(texts);
    str_free(&text);
}

/* Compiles every eighth share. Eight consecutive turns compile all shares for one architecture, 48 turns for all
 * six. $TURN selects the turn, a number or "all". The default is the day if CI is set, otherwise 0. */
static void
compile_for_gpus(const char *self)
{
    const char *why = NULL, *asked = getenv("TURN");
    gpu_plugin_fn *get = gpu_plugin_of(self);
    const char *compiler = get ? get()->compiler(&why) : NULL;
    bool all = asked && !strcmp(asked, "all");
    uint64_t turn = asked ? strtoull(asked, NULL, 10) : getenv("CI") ? (uint64_t)time(NULL) / 86400 : 0;
    if (!compiler) {
        ok(true, "sources compile for GPUs # SKIP %s", get ? why : "no plug-in");
        return;
    }
    if (SANITIZED && !asked) {
        ok(true, "sources compile for GPUs # SKIP the build without sanitizers tests this");
        return;
    }
    if (all)
        diag("TURN=all");
    else
        diag("TURN=%llu", (unsigned long long)turn);
    for (int i = 0; i < SHARES; i++)
        if (all || (uint64_t)i % TURNS == turn % TURNS) compile_share(get(), compiler, i, turn);
}

static void
check_all(void *lib, uint64_t seed)
{
    for (struct work *w = works; w; w = w->next)
        if (w->taken) check(w, lib, seed);
    for (struct work *w = works; w; w = w->next)
        if (w->many.room) check_bundle(w, lib, seed);
}

static int
print_names(void)
{
    for (int i = 0; i < op_count; i++)
        if (!(op_table[i]->flags & OP_MOVE)) puts(op_table[i]->name);
    puts("combine");
    return 0;
}

int
main(int argc, char **argv)
{
    uint64_t seed = seed_of(1);
    const char *why = "no plug-in";
    on_gpu = argc > 1 && !strcmp(argv[1], "gpu");
    if (argc > 1 && !strcmp(argv[1], "names")) return print_names();
    gpu_plugin_fn *get = on_gpu ? gpu_plugin_of(argv[0]) : NULL;
    if (on_gpu && (!get || !gpu_open(get(), &why))) {
        printf("1..0 # SKIP no device: %s\n", why);
        return 0;
    }
    for (int i = 0; i < op_count; i++)
        if (is_tried(op_table[i]->name)) add_operator(op_table[i], seed);
    add_long(seed);
    add_warps(seed);
    add_looks(seed);
    add_all_led(seed);
    if (is_tried("combine")) add_sums(seed);
    add_bundles();
    if (argc > 1 && !strcmp(argv[1], "table")) {
        struct str rows = {0};
        add_rows(&rows);
        fputs(str_text(&rows), stderr);
        return 0;
    }
    if (!getenv("ONLY")) check_table();
    if (on_gpu) {
        compile_for_this();
        check_all(NULL, seed);
        gpu_close();
        return done();
    }
    if (argc > 1) {
        FILE *f = fopen(argv[1], "w");
        for (int i = 0; f && i < SHARES; i++) write_texts(f, i);
        if (f) fclose(f);
        return f ? 0 : 1;
    }
    if (system("command -v c++ >/dev/null 2>&1")) {
        ok(true, "the sources compile for the host # SKIP no c++");
        return done();
    }
    char dir[] = "/tmp/rille-kernels-XXXXXX", line[64];
    void *lib = mkdtemp(dir) ? compile(dir) : NULL;
    if (!lib) diag("%s", dlerror());
    if (lib) check_all(lib, seed);
    compile_for_gpus(argv[0]);
    snprintf(line, sizeof line, "rm -rf %s", dir);
    if (!getenv("KEEP") && system(line)) diag("%s stays", dir);
    return done();
}
