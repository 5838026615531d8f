/* options.c - tests the sizes of option structs. Each function must accept the structs of older and of newer
 * headers. It must refuse a struct if an option is set that this version does not know. */
#include "rille.h"
#include "t/lib/tap.h"

#include <stddef.h>

static struct rille_session *s;

/* Functions that call one public function each, with the given options. Most of the calls fail because other
 * arguments or fields are invalid. The test looks only for errors about the struct's size or unknown options. */
static void
call_open(const void *options)
{
    struct rille_session *own = NULL;
    if (!rille_open(options, &own)) rille_close(&own);
}

static void
call_open_cluster(const void *options)
{
    struct rille_session *own = NULL;
    rille_open(&(struct rille_options){.cluster = options}, &own);
}

static void
call_worker(const void *options)
{
    rille_worker(options);
}

static void
call_check(const void *options)
{
    rille_graph_check(options);
}

static void
call_trace(const void *options)
{
    if (!rille_trace_begin(s, options, 0, NULL, &(struct rille_tensor *){NULL})) rille_trace_abort(s);
}

static void
call_save(const void *options)
{
    rille_save(s, "unknown.ending", 0, NULL, NULL, options, NULL);
}

static void
call_batch(const void *options)
{
    struct rille_tokens *t;
    struct rille_tensor *x, *y;
    rille_tokens_of(s, 3, (int64_t[]){1, 2, 3}, &t);
    rille_tokens_batch(t, options, &x, &y);
    rille_tokens_close(&t);
}

static void
call_whatif(const void *options)
{
    struct rille_graph *g = NULL;
    struct rille_tensor *x = NULL, *piece = NULL;
    struct rille_explain *e = NULL;
    rille_create(s, rille_op_find("ones"), 0, NULL, 1, (int64_t[]){2}, NULL, NULL, &x);
    rille_trace_begin(s, &(struct rille_graph_options){0}, 1, &x, &piece);
    rille_trace_end(s, 1, &piece, &g);
    if (!rille_graph_whatif(g, options, &e)) rille_explain_free(&e);
    rille_graph_free(&g);
    rille_tensor_free(&piece);
    rille_tensor_free(&x);
}

/* size: size of the struct, bytes; later: bytes at its end that the first version of the struct did not have */
static const struct {
    const char *name;
    size_t size, later;
    void (*call)(const void *options);
} structs[] = {
    {"rille_options", sizeof(struct rille_options), 8, call_open},
    {"rille_workers", sizeof(struct rille_workers), sizeof(struct rille_workers) - offsetof(struct rille_workers, job),
     call_open_cluster},
    {"rille_worker_options", sizeof(struct rille_worker_options), 16, call_worker},
    {"rille_graph_options", sizeof(struct rille_graph_options), 8, call_check},
    {"rille_graph_options, traced", sizeof(struct rille_graph_options), 8, call_trace},
    {"rille_save_options", sizeof(struct rille_save_options), 8, call_save},
    {"rille_token_rows", sizeof(struct rille_token_rows), 8, call_batch},
    {"rille_cluster", sizeof(struct rille_cluster), 8, call_whatif},
};

/* Calls function k with a struct of `size` bytes in a buffer of `room` bytes. The struct's last byte is `last`.
 * Returns true if the error contains `how`: the size is wrong, or an unknown option is set. */
static bool
refuses(size_t k, size_t size, size_t room, char last, const char *how)
{
    char *options = calloc(1, room + 1);
    memcpy(options, &size, sizeof size);
    if (last) options[size - 1] = last;
    call_open(&(struct rille_options){.devices = "none"}); /* overwrites the previous error */
    structs[k].call(options);
    bool refused = strstr(rille_error(), how) != NULL;
    free(options);
    return refused;
}

static void
test_struct(size_t k)
{
    static const char size_error[] = "the size of the options must be", unknown[] = "does not know an option";
    size_t n = structs[k].size, bad = 0;
    ok(!refuses(k, 0, n, 0, size_error), "%s: size 0 is accepted", structs[k].name);
    for (size_t more = 0; more <= 128; more++)
        bad += refuses(k, n + more, n + more, 0, size_error) || refuses(k, n + more, n + more, 0, unknown);
    is_int((int64_t)bad, 0, "larger sizes are accepted if the options that Rille lacks are zero");
    for (size_t more = 1; more <= 128; more++) bad += !refuses(k, n + more, n + more, 1, unknown);
    is_int((int64_t)bad, 0, "an unknown option that is set is refused");
    for (size_t less = 1; less < n - structs[k].later; less++) bad += !refuses(k, less, n, 0, size_error);
    is_int((int64_t)bad, 0, "a size between 0 and the first version's is refused");
    ok(refuses(k, SIZE_MAX, n, 0, size_error), "a size that no struct has is refused");
}

int
main(void)
{
    int major, minor, patch;
    alarm(HANG);
    is_str(rille_version(), RILLE_VERSION, "the library has the version of the header");
    sscanf(RILLE_VERSION, "%d.%d.%d", &major, &minor, &patch);
    is_int(rille_version_number(), 1000000 * major + 1000 * minor + patch,
           "the number of the version is that of its text");
    if (rille_open(&(struct rille_options){.devices = "cpu:1"}, &s)) return 1;
    for (size_t k = 0; k < sizeof structs / sizeof *structs; k++) test_struct(k);
    ok(rille_close(&s) == 0, "the session closes");
    return done();
}
