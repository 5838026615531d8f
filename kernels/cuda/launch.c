/* launch.c - compiles kernel texts and launches the kernels. */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/making.h"

#include "runtime/device/device.h"
#include "runtime/device/device_cuda.h"
#include "runtime/device/cuda_kernel.h"
#include "runtime/base/error.h"

#include <string.h>

enum { MOST_BYTES = 4096 }; /* maximum size of a kernel's argument on every GPU, bytes */

static int
finish_source(struct arena *a, const struct cuda_source *s, int nin, struct cuda_launch **out)
{
    struct cuda_launch *l = ARENA_NEW(a, struct cuda_launch);
    *l = (struct cuda_launch){.source = *s, .nin = nin, .scratch_bytes = s->scratch_bytes};
    TRY(cuda_kernel_get(s->name, cuda_device_text, s->text, &l->kernel));
    *out = l;
    return s->then ? finish_source(a, s->then, nin, &l->then) : 0;
}

/* Adds the kernel that searches for invalid data. Its findings are stored in scratch, after the values of the
 * passes. */
static int
add_finder(struct arena *a, const struct kcall *k, struct cuda_launch *l)
{
    struct cuda_source s;
    if (!k->call->op->host.allows) return 0;
    TRY(cuda_source_find(a, k, &s));
    TRY(finish_source(a, &s, k->call->nin, &l->finder));
    l->scratch_bytes += s.scratch_bytes;
    return 0;
}

int
cuda_launch_call(struct arena *a, const struct kcall *k, struct cuda_launch **out)
{
    struct cuda_source s;
    *out = NULL;
    if (cuda_source_call(a, k, &s)) {
        err_clear();
        return 0;
    }
    TRY(finish_source(a, &s, k->call->nin, out));
    return add_finder(a, k, *out);
}

/* Returns true if the kernel can be bundled: it has one pass, and a run fills in only addresses. */
static bool
bundles(const struct cuda_source *s)
{
    for (int i = 0; i < s->nfill; i++)
        if (s->fill[i].what != FILL_ADDRESS) return false;
    return !s->then;
}

int
cuda_launch_bundled(struct arena *a, const struct kcall *k, struct cuda_launch **out)
{
    struct cuda_source s;
    *out = NULL;
    if (cuda_source_call(a, k, &s)) {
        err_clear();
        return 0;
    }
    if (!bundles(&s)) return 0;
    cuda_source_many(a, &s, &s);
    return finish_source(a, &s, k->call->nin, out);
}

int
cuda_launch_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin, const struct view *in,
                  int nout, const struct view *out, struct cuda_launch **made)
{
    struct cuda_source s;
    *made = NULL;
    if (cuda_source_chain(a, lead, nstep, step, nin, in, nout, out, &s)) {
        err_clear();
        return 0;
    }
    return finish_source(a, &s, nin, made);
}

int
cuda_launch_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to, bool bundled,
                    struct cuda_launch **made)
{
    struct cuda_source s;
    bool bits = nin == 1 && in->dtype == to->dtype;
    *made = NULL;
    if (bits ? cuda_source_copy(a, in, to, 0, &s) : cuda_source_combine(a, r, nin, in, to, &s)) {
        err_clear();
        return 0;
    }
    if (bundled) cuda_source_many(a, &s, &s);
    return finish_source(a, &s, nin, made);
}

static int
run_passes(const struct cuda_launch *l, int device, void *const *in, void *const *out, void *scratch, uint64_t piece)
{
    uint64_t word[MOST_BYTES / sizeof(uint64_t)];
    for (; l; l = l->then) {
        if (l->source.blocks == 0 || (l->source.copies && in[0] == out[0])) continue;
        cuda_source_fill(&l->source, l->nin, in, out, scratch, piece, word);
        TRY(cuda_kernel_run(l->kernel, device, l->source.blocks, l->source.parts.threads, word,
                            (size_t)l->source.nword * sizeof *word));
    }
    return 0;
}

static int
run_finder(const struct cuda_launch *finder, int device, void *const *in, void *scratch, struct finding *find)
{
    struct finding found[CUDA_FINDERS];
    int64_t n = finder->source.blocks;
    TRY(run_passes(finder, device, in, NULL, scratch, 0));
    TRY(device_kind(DEV_CUDA)->settle(device));
    if (n) TRY(device_kind(DEV_CUDA)->copy(found, scratch, sizeof *found * (size_t)n));
    for (int64_t i = n - 1; i >= 0; i--)
        if (found[i].at) *find = found[i];
    return 0;
}

int
cuda_launch_run(const struct cuda_launch *l, int device, void *const *in, void *const *out, void *scratch,
                uint64_t piece, struct finding *find)
{
    if (l->finder && find) TRY(run_finder(l->finder, device, in, (char *)scratch + l->source.scratch_bytes, find));
    return run_passes(l, device, in, out, scratch, piece);
}

/* ---- bundles ---- */

int
cuda_bundle_end(struct cuda_bundle *b)
{
    if (b->n == 0) return 0;
    const struct cuda_source *s = &b->last->source;
    int64_t blocks = b->blocks;
    size_t used = (size_t)(s->room + b->n * s->nword), all = (size_t)(s->room * (s->nword + 1));
    memset(b->word + b->n, 0, (size_t)(s->room - b->n) * sizeof *b->word);
    memset(b->word + used, 0, (all - used) * sizeof *b->word);
    cuda_bundle_begin(b, b->device);
    return cuda_kernel_run(b->last->kernel, b->device, blocks, s->parts.threads, b->word, all * sizeof *b->word);
}

int
cuda_bundle_add(struct cuda_bundle *b, const struct cuda_launch *l, void *const *in, void *const *out)
{
    const struct cuda_source *s = &l->source;
    if (s->blocks == 0) return 0;
    if (b->n && (b->last->kernel != l->kernel || b->n == s->room)) TRY(cuda_bundle_end(b));
    b->last = l;
    b->blocks += s->blocks;
    b->word[b->n] = (uint64_t)b->blocks;
    cuda_source_fill(s, l->nin, in, out, NULL, 0, b->word + s->room + b->n * s->nword);
    b->n++;
    return 0;
}
