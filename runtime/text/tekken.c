/* tekken.c - reads Mistral's tekken.json: ranked byte strings, a pattern, and special tokens with the first ids. */
#include "runtime/base/error.h"
#include "runtime/text/characters/base64.h"
#include "runtime/text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

/* Returns an integer setting of the file; -1: none. */
static json_int_t
setting_of(const json_t *config, const char *name)
{
    const json_t *v = json_object_get(config, name);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static int
add_ranked(struct tokenizer *t, const char *path, const json_t *entry, json_int_t rank, json_int_t first)
{
    const char *text = json_string_value(json_object_get(entry, "token_bytes"));
    size_t n = text ? strlen(text) : 0;
    uint8_t *bytes = must_alloc(n + 1);
    bool good = text && base64_read(text, n, bytes, &n) && n && setting_of(entry, "rank") == rank;
    bool twice = good && bpe_find(&t->bpe, bytes, n) != NO_TOKEN;
    if (good && !twice) bpe_add(&t->bpe, (uint32_t)(rank + first), bytes, n, true);
    free(bytes);
    if (twice) return fail(E_IO, "%s: token %lld occurs twice", path, (long long)rank);
    return good ? 0
                : fail(E_IO, "%s: token %lld must have token_bytes in base64 and the rank %lld", path, (long long)rank,
                       (long long)rank);
}

/* Adds special token `id`. In a file of an early version, which lists no special tokens, the first three are <unk>,
 * <s> and </s>. Other tokens without a text are named <SPECIAL_id>. */
static int
add_tekken_special(struct tokenizer *t, const char *path, const json_t *list, json_int_t id)
{
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    char spare[32];
    const json_t *entry = json_array_get(list, (size_t)id);
    const char *text = json_string_value(json_object_get(entry, "token_str"));
    snprintf(spare, sizeof spare, "<SPECIAL_%lld>", (long long)id);
    if (!text) text = !list && id < (json_int_t)countof(first) ? first[id] : spare;
    if (entry && setting_of(entry, "rank") != id)
        return fail(E_IO, "%s: special token %lld must have the rank %lld", path, (long long)id, (long long)id);
    return tokenizer_special(t, path, &(struct special){text, strlen(text), (uint32_t)id, .control = true});
}

int
tokenizer_read_tekken(struct tokenizer *t, const char *path, const json_t *root)
{
    const json_t *config = json_object_get(root, "config"), *vocab = json_object_get(root, "vocab");
    const json_t *special = json_object_get(root, "special_tokens");
    const char *pattern = json_string_value(json_object_get(config, "pattern"));
    json_int_t size = setting_of(config, "default_vocab_size");
    json_int_t nspecial = setting_of(config, "default_num_special_tokens");
    if (!pattern) return fail(E_ARG, "%s: config must have a pattern", path);
    if (nspecial < 0 || size < nspecial || size - nspecial > (json_int_t)json_array_size(vocab))
        return fail(
            E_ARG,
            "%s: expected default_vocab_size of at most %zu tokens and default_num_special_tokens, found %lld and %lld",
            path, json_array_size(vocab), (long long)size, (long long)nspecial);
    TRY(tokenizer_check_id(path, "the first of the vocab", nspecial, json_array_size(vocab)));
    for (json_int_t i = 0; i < size - nspecial; i++)
        TRY(add_ranked(t, path, json_array_get(vocab, (size_t)i), i, nspecial));
    t->bpe.whole_piece = true;
    bpe_join_by_id(&t->bpe);
    TRY(tokenizer_cut(t, path, pattern, DIALECT_RUST));
    for (json_int_t i = 0; i < nspecial; i++) TRY(add_tekken_special(t, path, special, i));
    return 0;
}
