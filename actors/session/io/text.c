/* text.c - public functions for tokenizers. */
#include "actors/session/core/face.h"
#include "runtime/text/train.h"
#include "runtime/text/tokenizer_save.h"
#include "runtime/text/tokenizer_parts.h"

#include <stdlib.h>

static struct tokenizer *
inner(const struct rille_tokenizer *t)
{
    return (struct tokenizer *)(uintptr_t)t;
}

int
rille_tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special,
                     const int64_t *ids, struct rille_tokenizer **out)
{
    TRY(face_given(path, "the path", __func__));
    TRY((nspecial ? face_given(special, "the special tokens", __func__) : 0));
    TRY(face_given(out, "out", __func__));
    return tokenizer_open(path, pattern, nspecial, special, ids, (struct tokenizer **)out);
}

int
rille_tokenizer_of_text(const char *path, const char *text, size_t n, struct rille_tokenizer **out)
{
    TRY(face_given(path, "the path", __func__));
    TRY(face_given(text, "the text", __func__));
    TRY(face_given(out, "out", __func__));
    return tokenizer_of_text(path, text, n, (struct tokenizer **)out);
}

void
rille_tokenizer_free(struct rille_tokenizer **t)
{
    if (!face_given(t, "the tokenizer", __func__)) tokenizer_free((struct tokenizer **)t);
}

int64_t
rille_tokenizer_size(const struct rille_tokenizer *t)
{
    return face_given(t, "the tokenizer", __func__) ? 0 : inner(t)->bpe.ndistinct;
}

int
rille_tokenizer_encode(struct rille_tokenizer *t, const char *text, size_t n, uint32_t **ids, size_t *nids)
{
    struct ids out = {0};
    TRY(face_given(t, "the tokenizer", __func__));
    TRY((n ? face_given(text, "the text", __func__) : 0));
    TRY(face_given(ids, "ids", __func__));
    TRY(face_given(nids, "nids", __func__));
    if (n > INT32_MAX) return fail(E_ARG, "encode: a string must have at most 2 GiB");
    int status = tokenizer_encode(inner(t), text, n, &out);
    if (status) {
        free(out.list);
        return status;
    }
    *ids = out.list ? out.list : must_alloc(sizeof **ids);
    *nids = out.n;
    return 0;
}

int
rille_tokenizer_decode(const struct rille_tokenizer *t, size_t n, const int64_t *ids, char **text, size_t *ntext)
{
    struct str out = {0};
    TRY(face_given(t, "the tokenizer", __func__));
    TRY((n ? face_given(ids, "the ids", __func__) : 0));
    TRY(face_given(text, "text", __func__));
    TRY(face_given(ntext, "ntext", __func__));
    int status = tokenizer_decode(inner(t), n, ids, &out);
    if (status) {
        str_free(&out);
        return status;
    }
    str_add(&out, ""); /* adds the terminating zero */
    *text = out.text ? out.text : must_alloc(1);
    *ntext = out.len;
    return 0;
}

int
rille_tokenizer_template(const struct rille_tokenizer *t, const uint32_t **before, size_t *nbefore,
                         const uint32_t **after, size_t *nafter)
{
    TRY(face_given(t, "the tokenizer", __func__));
    TRY(face_given(before, "before", __func__));
    TRY(face_given(nbefore, "nbefore", __func__));
    TRY(face_given(after, "after", __func__));
    TRY(face_given(nafter, "nafter", __func__));
    *before = inner(t)->before.list;
    *nbefore = inner(t)->before.n;
    *after = inner(t)->after.list;
    *nafter = inner(t)->after.n;
    return 0;
}

const char *
rille_tokenizer_batches(const struct rille_tokenizer *t)
{
    return face_given(t, "the tokenizer", __func__) ? NULL : tokenizer_batches(inner(t));
}

int
rille_tokenizer_is_special(const struct rille_tokenizer *t, int64_t id)
{
    return !face_given(t, "the tokenizer", __func__) && tokenizer_is_special(inner(t), id);
}

int
rille_tokenizer_save(struct rille_tokenizer *t, const char *path)
{
    TRY(face_given(t, "the tokenizer", __func__));
    TRY(face_given(path, "the path", __func__));
    return tokenizer_save(inner(t), path);
}

/* ---- training tokenizers ---- */

int
rille_trainer_new(const char *pattern, int nspecial, const char *const *special, struct rille_trainer **out)
{
    TRY((nspecial ? face_given(special, "the special tokens", __func__) : 0));
    TRY(face_given(out, "out", __func__));
    *out = (struct rille_trainer *)trainer_new(pattern, nspecial, special);
    return 0;
}

void
rille_trainer_free(struct rille_trainer **r)
{
    if (!face_given(r, "the trainer", __func__)) trainer_free((struct trainer **)r);
}

int
rille_trainer_add(struct rille_trainer *r, const char *text, size_t n)
{
    TRY(face_given(r, "the trainer", __func__));
    TRY((n ? face_given(text, "the text", __func__) : 0));
    return trainer_add((struct trainer *)r, text, n);
}

int
rille_trainer_end(struct rille_trainer *r, int64_t size, struct rille_tokenizer **out)
{
    TRY(face_given(r, "the trainer", __func__));
    TRY(face_given(out, "out", __func__));
    if (size < 0 || size > 1 << 24)
        return fail(E_ARG, "tokenizer.train: size must be at most 2^24, found %lld", (long long)size);
    return trainer_end((struct trainer *)r, (uint32_t)size, (struct tokenizer **)out);
}
