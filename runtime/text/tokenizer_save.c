/* tokenizer_save.c - saves a tokenizer as tokenizer.json, with merges in the form that all readers accept. */
#include "runtime/text/tokenizer_save.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/save.h"
#include "runtime/text/characters/alphabet.h"
#include "runtime/text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static json_t *
spelled(const struct tokenizer *t, uint32_t id)
{
    struct str text = {0};
    alphabet_write(t->bpe.token[id].bytes, t->bpe.token[id].n, &text);
    json_t *value = json_string(str_text(&text));
    str_free(&text);
    return value;
}

/* Returns true if the id is that of a special token that is not in the vocabulary. */
static bool
is_added(const struct tokenizer *t, uint32_t id)
{
    const struct bpe_token *k = &t->bpe.token[id];
    for (int i = 0; i < t->nspecial; i++)
        if (t->special[i].id == id) return bpe_find(&t->bpe, k->bytes, k->n) != id;
    return false;
}

static int
by_id(const void *a, const void *b)
{
    uint32_t x = (*(const struct special *const *)a)->id, y = (*(const struct special *const *)b)->id;
    return x < y ? -1 : x > y;
}

/* Returns all special tokens in order of id. The caller frees the list. */
static const struct special **
specials_in_order(const struct tokenizer *t)
{
    const struct special **order = must_alloc(sizeof *order * ((size_t)t->nspecial + 1));
    for (int i = 0; i < t->nspecial; i++) order[i] = &t->special[i];
    if (t->nspecial) qsort(order, (size_t)t->nspecial, sizeof *order, by_id);
    return order;
}

/* Decides whether the saved vocabulary lists the added tokens. A reader gives an added token the id that the
 * vocabulary has for its text; the ids of other added tokens count from the vocabulary's size on. If that would
 * change ids, the vocabulary must list the added tokens, as plain text instead of in byte-level encoding. In that
 * case no other token may be spelled as the text of an added token. */
static int
write_added_ids(const struct tokenizer *t, const char *path, const struct special *const *order, json_t *vocab)
{
    json_int_t next = (json_int_t)json_object_size(vocab);
    bool counted = true;
    for (int i = 0; i < t->nspecial; i++) {
        const json_t *other = json_object_get(vocab, order[i]->own.text);
        if (other && json_integer_value(other) != order[i]->id)
            return fail(E_ARG,
                        "%s: the special token '%.100s' has id %u, but tokenizer.json spells a token of bytes the same "
                        "way, so readers would use its id, %lld",
                        path, order[i]->own.text, (unsigned)order[i]->id, (long long)json_integer_value(other));
        if (!other) counted = counted && order[i]->id == next++;
    }
    for (int i = 0; i < t->nspecial && !counted; i++)
        json_object_set_new(vocab, order[i]->own.text, json_integer(order[i]->id));
    return 0;
}

static int
write_vocabulary(const struct tokenizer *t, const char *path, json_t *vocab)
{
    for (uint32_t id = 0; id < t->bpe.ntoken; id++) {
        if (!t->bpe.token[id].bytes || is_added(t, id)) continue;
        json_t *text = spelled(t, id);
        json_object_set_new(vocab, json_string_value(text), json_integer(id));
        json_decref(text);
    }
    const struct special **order = specials_in_order(t);
    int status = write_added_ids(t, path, order, vocab);
    free(order);
    return status;
}

static void
note_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id)
{
    GROW(t->join, t->njoin + 1, t->join_capacity);
    t->join[t->njoin++] = (struct join){left, right, id};
}

/* Makes merges for a tokenizer whose file has none: every split of a token into two tokens, in order of rank. */
static void
derive_joins(struct tokenizer *t)
{
    for (uint32_t id = 0; id < t->bpe.ntoken; id++) {
        const struct bpe_token *k = &t->bpe.token[id];
        if (!k->bytes || is_added(t, id)) continue;
        for (uint32_t n = 1; n < k->n; n++) {
            uint32_t left = bpe_find(&t->bpe, k->bytes, n), right = bpe_find(&t->bpe, k->bytes + n, k->n - n);
            if (left != NO_TOKEN && right != NO_TOKEN) note_join(t, left, right, id);
        }
    }
}

static json_t *
write_merges(const struct tokenizer *t)
{
    json_t *merges = json_array();
    for (uint32_t i = 0; i < t->njoin; i++) {
        json_t *left = spelled(t, t->join[i].left), *right = spelled(t, t->join[i].right);
        json_array_append_new(merges, json_sprintf("%s %s", json_string_value(left), json_string_value(right)));
        json_decref(left);
        json_decref(right);
    }
    return merges;
}

static json_t *
write_one_added(const struct special *s)
{
    return json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)s->id, "content", s->own.text, s->own.n,
                     "single_word", (int)s->word, "lstrip", (int)s->left, "rstrip", (int)s->right, "normalized",
                     (int)s->normalized, "special", (int)s->control);
}

static json_t *
write_added(const struct tokenizer *t)
{
    json_t *list = json_array();
    const struct special **order = specials_in_order(t);
    for (int i = 0; i < t->nspecial; i++) json_array_append_new(list, write_one_added(order[i]));
    free(order);
    return list;
}

/* Returns the JSON of a part of tokenizer.json (enum part): the JSON that was read from a file or, if there is none,
 * JSON made from the tokenizer's pattern. */
static json_t *
write_tokenizer_part(const struct tokenizer *t, enum part which)
{
    json_error_t why;
    if (t->part[which]) return json_loads(t->part[which], 0, &why);
    if (which != PART_CUTTER && which != PART_DECODER) return json_null();
    json_t *last = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                             "use_regex", which == PART_DECODER || t->pattern == NULL);
    if (!t->pattern || which == PART_DECODER) return last;
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", t->pattern, "behavior",
                              "Isolated", "invert", 0);
    return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, last);
}

/* Makes the content of the file. Takes ownership of `vocab`. */
static json_t *
write_root(struct tokenizer *t, json_t *vocab)
{
    if (t->bpe.joins_by_id && t->njoin == 0) derive_joins(t);
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                  (int)t->bpe.whole_piece, "vocab", vocab, "merges", write_merges(t));
    json_t *root =
        json_pack("{s:s, s:n, s:n, s:o}", "version", "1.0", "truncation", "padding", "added_tokens", write_added(t));
    for (int i = 0; i < NPARTS; i++) json_object_set_new(root, part_names[i], write_tokenizer_part(t, (enum part)i));
    json_object_set_new(root, "model", model);
    return root;
}

int
tokenizer_save(struct tokenizer *t, const char *path)
{
    if (t->file.len && !text_ends(path, t->file_end))
        return fail(E_ARG, "%s: the name of this tokenizer's file must end in %s", path, t->file_end);
    if (t->file.len) return saving_bytes(path, t->file.text, t->file.len);
    if (text_ends(path, ".tiktoken")) return fail(E_ARG, "%s: the name of a saved tokenizer must end in .json", path);
    const char *part = t->pattern ? pattern_moved(t->pattern, t->dialect) : NULL;
    if (part)
        return fail(E_ARG, "%s: the pattern has %s, which readers of tokenizer.json interpret differently: %.200s",
                    path, part, t->pattern);
    json_t *vocab = json_object();
    int known = write_vocabulary(t, path, vocab);
    if (known) json_decref(vocab);
    if (known) return known;
    json_t *root = write_root(t, vocab);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    int status = text ? saving_text(path, text) : fail(E_ARG, "%s: a token is not UTF-8, so JSON cannot hold it", path);
    free(text);
    json_decref(root);
    return status;
}
