/* making.c - assembles the text and the argument of a kernel. */
#include "kernels/cuda/making.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* MOST_WORDS: maximum number of words in an argument (4 KiB). MOST_BLOCKS: maximum number of blocks. */
enum { MOST_WORDS = 500, MOST_BLOCKS = 1 << 20 };

/* ---- the argument ---- */

void
making_word(struct making *m, uint64_t w)
{
    ARENA_GROW(m->arena, m->to->word, m->to->nword + 1, m->room);
    m->to->word[m->to->nword++] = w;
}

void
making_words(struct making *m, int n, const int64_t *w)
{
    for (int i = 0; i < n; i++) making_word(m, (uint64_t)w[i]);
}

/* Appends a word of the argument that each run fills in. */
void
making_fill(struct making *m, int what, int index, int64_t skip)
{
    ARENA_GROW(m->arena, m->to->fill, m->to->nfill + 1, m->fill_room);
    struct cuda_fill *f = &m->to->fill[m->to->nfill++];
    *f = (struct cuda_fill){.word = m->to->nword, .index = index, .skip = skip};
    f->what = what;
    making_word(m, 0);
}

/* ---- names and types in C++ ---- */

const char *
making_memory(enum dtype d)
{
    static const char *const of[NDTYPE] = {
        [DT_F32] = "float",  [DT_F64] = "double", [DT_BF16] = "bf16",   [DT_F16] = "f16",
        [DT_BOOL] = "truth", [DT_U8] = "uint8_t", [DT_I32] = "int32_t", [DT_I64] = "int64_t"};
    return of[d];
}

const char *
making_compute(enum compute c)
{
    static const char *const of[NCOMPUTE] = {"float", "double", "int64_t"};
    return of[c];
}

/* Appends text in capitals, for names of constants like APPROXIMATE and APPROXIMATE_TANH. */
static void
add_capitals(struct str *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) str_addf(s, "%c", toupper((unsigned char)text[i]));
}

const char *
making_places(int64_t n)
{
    return n < INT32_MAX ? "uint32_t" : "int64_t";
}

/* Writes constants that the GPU code of operators uses: the index of each attribute, and the number of each word
 * that a text attribute may have. */
void
making_add_names(struct str *s, const struct op *op)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *a = &op->attr[i];
        str_add(s, "    enum { ");
        add_capitals(s, a->name, strlen(a->name));
        str_addf(s, " = %d };\n", i);
        const char *at = a->kind == ATTR_TEXT ? a->text : "";
        for (int k = 0; *at; k++) {
            size_t n = strcspn(at, "|");
            str_add(s, "    enum { ");
            add_capitals(s, a->name, strlen(a->name));
            str_add(s, "_");
            add_capitals(s, at, n);
            str_addf(s, " = %d };\n", k);
            at += n + (at[n] == '|');
        }
    }
}

static void
add_real(struct str *s, double f)
{
    if (f != f)
        str_add(s, "NAN");
    else if (f - f != 0)
        str_add(s, f < 0 ? "-INFINITY" : "INFINITY");
    else
        str_addf(s, "%.17g", f);
}

/* Writes the declaration of the call `c`, from which the GPU code of operators reads attributes. */
void
making_add_call(struct str *s, const char *name, const struct call *c)
{
    str_addf(s, "        const call %s = {{", name);
    for (int i = 0; i < op_nattr(c->op); i++) {
        const struct attr *a = &c->attr[i];
        str_addf(s, "{%d, %d, %" PRId64 "ll, ", a->set, a->n, a->i);
        add_real(s, a->f);
        str_add(s, ", {");
        for (int k = 0; k < a->n; k++) str_addf(s, "%" PRId64 "ll, ", a->list[k]);
        str_add(s, "0}}, ");
    }
    str_add(s, "{0, 0, 0, 0, {0}}}, {");
    for (int i = 0; i < c->nin && i < OP_OPERAND; i++) str_addf(s, "{%d}, ", c->in[i].dtype != DT_NONE);
    str_add(s, "{0}}};\n");
}

/* ---- assembly ---- */

/* Returns the text of a kernel that is assembled from parts and has the struct `argument` as its argument. The
 * kernel begins with the macro `begin` of members.cuh, which defines a, block and blocks. */
static const char *
join_source_parts(struct arena *a, const char *name, const struct cuda_parts *p, const char *argument,
                  const char *begin)
{
    struct str s = {0};
    str_addf(&s, "namespace %s_ {\nstruct args {\n%s};\n%s\n", name, p->member, p->head);
    str_addf(&s, "%s\nKERNEL(%s, %d, %d)\n", argument, name, p->threads, p->crowd);
    str_addf(&s, "{\n    %s\n%s}\n}\n", begin, p->body);
    const char *text = arena_strdup(a, str_text(&s));
    str_free(&s);
    return text;
}

void
making_what(struct making *m, const char *word)
{
    size_t n = strlen(m->what);
    if (n + 1 + strlen(word) > CUDA_WHAT) return;
    snprintf(m->what + n, sizeof m->what - n, "%s%s", n ? "_" : "", word);
}

void
making_fragments(struct making *m)
{
    enum { WARP = 32 };
    str_addf(&m->head, "enum { WARPS = %d };\n%s", m->to->parts.threads / WARP, cuda_fragments_text);
}

int
making_finish(struct making *m, const char *engine, int64_t threads)
{
    struct digest d = DIGEST_BEGIN;
    struct cuda_source *to = m->to;
    struct str *part[] = {&m->member, &m->head, &m->body};
    const char **kept[] = {&to->parts.member, &to->parts.head, &to->parts.body};
    char name[CUDA_WHAT + 20];
    digest_bytes(&d, m->what, strlen(m->what));
    for (int i = 0; i < 3; i++) {
        digest_bytes(&d, str_text(part[i]), strlen(str_text(part[i])));
        *kept[i] = arena_strdup(m->arena, str_text(part[i]));
        str_free(part[i]);
    }
    snprintf(name, sizeof name, "%s_%016" PRIx64, m->what[0] ? m->what : engine, d.a ^ d.b);
    to->name = arena_strdup(m->arena, name);
    to->text = join_source_parts(m->arena, name, &to->parts, "typedef args argument;", "ONE_CALL");
    to->engine = engine;
    to->blocks = MIN((threads + to->parts.threads - 1) / to->parts.threads, MOST_BLOCKS);
    return to->nword > MOST_WORDS ? fail(E_KERNEL, "the argument of a GPU kernel must have at most %d words, found %d",
                                         MOST_WORDS, to->nword)
                                  : 0;
}

void
cuda_source_many(struct arena *a, const struct cuda_source *s, struct cuda_source *many)
{
    char name[CUDA_WHAT + 32], argument[128];
    int room = MOST_WORDS / (s->nword + 1);
    snprintf(name, sizeof name, "many_%s", s->name);
    snprintf(argument, sizeof argument, "typedef calls<args, %d> argument;", room);
    *many = *s;
    many->room = room;
    many->name = arena_strdup(a, name);
    many->text = join_source_parts(a, name, &s->parts, argument, "MANY_CALLS");
}

struct making
making_begin(struct arena *a, struct cuda_source *to)
{
    *to = (struct cuda_source){.parts = {.threads = CUDA_BLOCK, .crowd = 1}};
    return (struct making){.arena = a, .to = to};
}

/* ---- declarations by which a kernel's body accesses operands and results ---- */

/* Writes the declarations of a number operand: the member number<k>, and the C++ function x<k>(), which reads it. */
void
making_add_number(struct making *m, int k, enum dtype d)
{
    str_addf(&m->member, "    const int64_t *number%d;\n", k);
    making_fill(m, FILL_ADDRESS, k, 0);
    str_addf(&m->head, "    READ_NUMBER(%d, %s)\n", k, making_memory(d));
}

/* Writes the declaration of a view: address, sizes, strides, offset of the shard and global sizes. With these,
 * the GPU code of an operator can access any element of the tensor. */
void
making_add_whole(struct making *m, char name, int k, int index, const struct view *v)
{
    str_addf(&m->member, "    struct { void *data; int64_t dim[8], stride[8], offset[8], whole[8]; } %c%d;\n", name, k);
    making_fill(m, FILL_ADDRESS, index, 0);
    making_words(m, MAX_DIM, v->dim);
    making_words(m, MAX_DIM, v->stride);
    making_words(m, MAX_DIM, v->offset);
    making_words(m, MAX_DIM, v->global);
}

/* Writes declarations of dim<k>, place<k>, whole<k> and NDIM<k> of the view that making_add_whole() declared. */
void
making_add_sizes(struct making *m, char name, int k, int ndim)
{
    str_addf(&m->head, "    SIZES_OF(%c, %d, %d)\n", name, k, ndim);
}

static void
add_reader(struct making *m, int k, const struct view *v)
{
    enum dtype d = (enum dtype)v->dtype;
    const char *type = making_compute(compute_of(d)), *memory = making_memory(d);
    str_addf(&m->head, "    READ_AT(%d, %d, %s, %s)\n", k, v->ndim, type, memory);
    making_add_sizes(m, 'x', k, v->ndim);
}

void
making_add_operand(struct making *m, const struct kcall *k, int i)
{
    if (i >= k->call->nin || k->in[i].dtype == DT_NONE) {
        str_addf(&m->head, "    ABSENT_AT(%d)\n", i);
    } else if (k->call->in[i].weak) {
        making_add_number(m, i, (enum dtype)k->in[i].dtype);
    } else {
        making_add_whole(m, 'x', i, i, &k->in[i]);
        add_reader(m, i, &k->in[i]);
    }
}

/* Writes the declaration of the C++ function x<k>_nth(j), which returns element j of an operand. If the view is
 * dense, the text reads it by a plain index, so that the compiler can read several elements at once. */
void
making_add_nth(struct making *m, int k, const struct view *v)
{
    str_addf(&m->head, view_is_dense(v) ? "    NTH_DENSE(%d)\n" : "    NTH_STRIDED(%d)\n", k);
}
