/* cuda-kernels.c - the kernels for GPUs give what the references give: the texts that kernels/cuda makes of the
 * records, compiled for the host with t/host/shim.h and run there, threads in orders that seeds draw. Samples of every
 * operator, of every dtype that they take, on dense, strided, repeated, overlapping and unaligned memory, with strange
 * values. Which operators have no kernel is written here, by name: the list gets shorter.
 *
 * cuda-kernels [FILE]: only writes the texts to FILE, for the compilers of CUDA. */
#include "kernels/cuda/source.h"
#include "kernels/op/table.h"
#include "runtime/denormal.h"
#include "runtime/hash.h"
#include "t/trial.h"

#include <dlfcn.h>
#include <unistd.h>

/* What goes by the host still. */
static const char *const by_host[] = {"adamw",
                                      "arange",
                                      "argmax",
                                      "argmin",
                                      "attention",
                                      "attention_grad",
                                      "attention_softmax",
                                      "avg_pool2d",
                                      "avg_pool2d_grad",
                                      "concat",
                                      "contract",
                                      "conv2d",
                                      "conv2d_grad_w",
                                      "conv2d_grad_x",
                                      "cross_entropy_grad",
                                      "cross_entropy_rows",
                                      "cross_entropy_spread",
                                      "cross_entropy_target",
                                      "cumsum",
                                      "divisor",
                                      "dropout",
                                      "embedding",
                                      "empty",
                                      "exp_sum",
                                      "flip",
                                      "full",
                                      "gather",
                                      "gather_grad",
                                      "index_add",
                                      "index_select",
                                      "label_count",
                                      "layer_norm",
                                      "linear_int8",
                                      "linspace",
                                      "log_softmax",
                                      "logsumexp",
                                      "matmul",
                                      "max_pool2d",
                                      "max_pool2d_grad",
                                      "max_pool2d_pick",
                                      "norm_grad",
                                      "norm_weight",
                                      "one_hot",
                                      "pad",
                                      "position",
                                      "put",
                                      "rand",
                                      "randint",
                                      "randn",
                                      "rms_norm",
                                      "sgd",
                                      "slice_grad",
                                      "softmax",
                                      "softmax_grad",
                                      "square_sum",
                                      "to_global",
                                      "topk",
                                      "tril",
                                      "triu",
                                      "zeros",
                                      NULL};

typedef void run_fn(const void *words, long blocks, uint64_t seed);
struct work {
    struct trial trial;
    struct cuda_source source;
    const char *memory;
    char text[128];
    bool strange;
    struct work *next;
};
static struct work *works, **last = &works;
static int64_t nwork;

/* ---- what is tried ---- */

/* A sample of other dtypes: "f32" becomes `dtype`. False: the call does not take it. */
static bool
retype(const struct op *op, const char *text, const char *dtype, char *to, size_t capacity)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    size_t n = 0;
    while (*text && n + 8 < capacity) {
        bool here = !strncmp(text, "f32", 3);
        n += (size_t)snprintf(to + n, capacity - n, "%.*s", here ? 8 : 1, here ? dtype : text);
        text += here ? 3 : 1;
    }
    if (!sample_read(op, to, &s)) return false;
    if (op->flags & OP_SOURCE) s.call.out[0] = source_shape;
    bool has_type = op->rule || op->make_rule || op->flags & OP_SOURCE;
    has_type = has_type && !call_infer(&a, &s.call, &rule);
    arena_fini(&a);
    return has_type;
}

static bool
is_by_host(const struct op *op)
{
    for (int i = 0; by_host[i]; i++)
        if (!strcmp(by_host[i], op->name)) return true;
    return false;
}

/* Does the operator have a kernel in this form? */
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
    *last = w;
    last = &w->next;
    nwork++;
    return true;
}

static void
add_operator(const struct op *op, uint64_t seed)
{
    static const char *const dtype[] = {"f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool"};
    char text[128];
    bool has = false, tried = false;
    for (size_t d = 0; d < countof(dtype); d++)
        for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++) {
            if (!retype(op, op->sample[i], dtype[d], text, sizeof text)) continue;
            if (d > 0 && !strcmp(text, op->sample[i])) continue;
            tried = true;
            for (int m = 0; m < NMEMORY; m++)
                if ((m == DENSE || !(op->flags & OP_SOURCE)) && (d == 0 || m == DENSE || m == TURNED))
                    has |= add_work(op, text, (enum memory)m, seed + (uint64_t)i);
            strange = true;
            has |= add_work(op, text, DENSE, seed + (uint64_t)i);
            strange = false;
        }
    if (tried) ok(has != is_by_host(op), "%s %s", op->name, has ? "has a kernel" : "goes by the host, and is listed");
}

static void
add_cases(uint64_t seed)
{
    static const struct {
        const char *op, *text;
    } list[] = {
        {"add", "f32{0,5} f32{5}"},
        {"add", "f32{3,1024} f32{1024}"},
        {"lt", "f32{7,1,5} bf16{1,9,5}"},
        {"cast", "f64{37} dtype=u8"},
        {"cast", "f64{37} dtype=bf16"},
        {"cast", "i64{37} dtype=f16"},
        {"cast", "f16{37} dtype=i32"},
        {"cast", "f32{37} dtype=bool"},
        {"sum", "f32{2500}"},
        {"sum", "f32{3,2500} axis=1"},
        {"sum", "bf16{3,1100} axis=0"},
        {"max", "f64{5,1027} axis=1 keepdim=1"},
        {"min", "i32{3,4,5,6} axis=0,2"},
        {"sum", "f32{600,70} axis=1"},
        {"sum", "f32{3,0} axis=1"},
        {"prod", "f32{300,20} axis=1"},
        {"any", "bool{300,20} axis=1"},
        {"softmax", "f32{300,30}"},
        {"softmax", "f32{3,1000}"},
        {"reshape", "f32{4,6} shape=3,8"},
        {"transpose", "f32{3,5,7} axis0=0 axis1=2"},
    };
    for (size_t i = 0; i < countof(list); i++)
        for (int m = 0; m < NMEMORY; m++) add_work(op_find(list[i].op), list[i].text, (enum memory)m, seed);
}

/* ---- the texts, each once ---- */

static int
write_texts(FILE *f, bool host)
{
    struct hash_table seen = {0};
    int n = 0;
    for (struct work *w = works; w; w = w->next) {
        uint64_t hash = strtoull(w->source.name + 1, NULL, 16);
        uint32_t at = 0;
        if (hash_next(&seen, hash, &at)) continue;
        hash_add(&seen, hash, w);
        fprintf(f, "/* %s %s */\n%s", w->trial.sample.call.op->name, w->text, w->source.text);
        if (host) fprintf(f, "SHIM_KERNEL(%s)\n", w->source.name);
        n++;
    }
    hash_free(&seen);
    return n;
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZE "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
#else
#define SANITIZE "-fsanitize=undefined -fsanitize-undefined-trap-on-error"
#endif

/* The texts as a library of the host; NULL: it did not compile. */
static void *
compile(const char *dir)
{
    char path[256], line[1024];
    snprintf(path, sizeof path, "%s/kernels.cpp", dir);
    FILE *f = fopen(path, "w");
    if (!f) return NULL;
    fprintf(f, "#include \"t/host/shim.h\"\n#include \"kernels/cuda/device.cuh\"\n");
    int n = write_texts(f, true);
    fclose(f);
    diag("%d texts for %lld calls", n, (long long)nwork);
    snprintf(line, sizeof line,
             "c++ -std=c++17 -O0 -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function "
             "-Wno-unused-variable -Werror " SANITIZE " -shared -fPIC -I. -o %s/kernels.so %s >&2",
             dir, path);
    if (!ok(system(line) == 0, "the texts compile for the host without warnings")) return NULL;
    snprintf(path, sizeof path, "%s/kernels.so", dir);
    return dlopen(path, RTLD_NOW);
}

/* ---- running ---- */

static void
run(struct work *w, run_fn *fn, struct tensor *out, uint64_t seed)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    const struct call *c = &w->trial.sample.call;
    uint64_t *word = must_alloc(sizeof *word * (size_t)w->source.nword);
    kcall_of(&w->trial, c, out, view, data, &k);
    cuda_source_fill(&w->source, c->nin, data, data + c->nin, k.piece, word);
    if (w->source.blocks) fn(word, (long)w->source.blocks, seed);
    free(word);
}

static void
check(struct work *w, run_fn *fn, uint64_t seed)
{
    const struct call *c = &w->trial.sample.call;
    uint64_t mode = denormals_flush();
    run(w, fn, w->trial.got, seed);
    run(w, fn, w->trial.again, seed + 1);
    denormals_restore(mode);
    double worst = 0;
    bool same = true;
    for (int i = 0; i < c->nout; i++) {
        worst = fmax(worst, distance(&w->trial.got[i].view, &w->trial.want[i].view));
        same &= !memcmp(w->trial.got[i].memory, w->trial.again[i].memory, (size_t)type_bytes(&c->out[i]));
    }
    bool good = ok(worst <= 1 && same, "%s %s, %s%s: by %s it is the reference, in any order of threads", c->op->name,
                   w->text, w->memory, w->strange ? ", strange values" : "", w->source.engine);
    if (!good) diag("%g times what is allowed; the orders agree: %d; %s", worst, same, w->source.name);
}

int
main(int argc, char **argv)
{
    uint64_t seed = seed_of(1);
    for (int i = 0; i < op_count; i++) add_operator(op_table[i], seed);
    add_cases(seed);
    if (argc > 1) {
        FILE *f = fopen(argv[1], "w");
        if (f) write_texts(f, false), fclose(f);
        return f ? 0 : 1;
    }
    char dir[] = "/tmp/rille-kernels-XXXXXX", line[64];
    void *lib = mkdtemp(dir) ? compile(dir) : NULL;
    if (!lib) diag("%s", dlerror());
    for (struct work *w = works; w && lib; w = w->next) {
        char name[64];
        snprintf(name, sizeof name, "run_%s", w->source.name);
        run_fn *fn;
        *(void **)&fn = dlsym(lib, name);
        check(w, fn, seed);
        trial_close(&w->trial);
    }
    snprintf(line, sizeof line, "rm -rf %s", dir);
    if (!getenv("KEEP") && system(line)) diag("%s stays", dir);
    return done();
}
