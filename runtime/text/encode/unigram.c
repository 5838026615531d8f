/* unigram.c - Unigram model: the most probable division of a text into tokens. */
#include "runtime/text/encode/unigram.h"

#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/text/characters/utf8.h"

#include <stdlib.h>

void
unigram_free(struct unigram **up)
{
    struct unigram *u = *up;
    *up = NULL;
    if (!u) return;
    trie_free(&u->pieces);
    free(u->score);
    free(u);
}

void
unigram_add(struct unigram *u, uint32_t id, const void *text, size_t n, double score, bool normal)
{
    GROW(u->score, id + 1, u->nscore);
    u->score[id] = score;
    if (n) trie_add(&u->pieces, text, n, id);
    if (!normal) return;
    u->least = MIN(u->least, score);
    u->most = MAX(u->most, score);
}

/* ---- finding the most probable division of a text ---- */

/* The best division of the text from its start to one position. */
struct division {
    double score;
    size_t from; /* start of the last piece */
    uint32_t id; /* last piece; NO_TOKEN: unknown characters */
    bool known;  /* true: a division was found */
};

static void
offer(const struct unigram *u, struct division *to, size_t from, double score, uint32_t id)
{
    if (u->narrow) score = (double)(float)score;
    if (to->known && !(score > to->score)) return;
    *to = (struct division){score, from, id == u->unknown ? NO_TOKEN : id, true};
}

/* Extends the best division of the text before `at` by each piece that begins there. */
static void
extend_from(const struct unigram *u, const uint8_t *text, size_t n, size_t at, size_t character, struct division *best)
{
    enum { UNKNOWN_PENALTY = 10 };
    double unknown = u->least - UNKNOWN_PENALTY;
    bool single = false;
    uint32_t node = 0, id;
    for (size_t i = at; i < n && trie_step(&u->pieces, &node, text[i], &id); i++) {
        if (id == TRIE_NONE) continue;
        offer(u, &best[i + 1], at, u->score[id] + best[at].score, id);
        single = single || i + 1 == at + character;
    }
    if (u->narrow) unknown = (double)(float)unknown;
    if (!single) offer(u, &best[at + character], at, unknown + best[at].score, NO_TOKEN);
}

static int
add_unknown(const struct unigram *u, const struct bpe *vocabulary, const uint8_t *text, size_t n, struct ids *out)
{
    uint32_t id = u->lookup ? bpe_find(vocabulary, text, n) : NO_TOKEN;
    bool bytes = u->fallback && id == NO_TOKEN;
    for (size_t i = 0; i < n; i++) bytes = bytes && vocabulary->byte[text[i]] != NO_TOKEN;
    for (size_t i = 0; i < n && bytes; i++) ids_add(out, vocabulary->byte[text[i]]);
    if (bytes) return 0;
    if (id == NO_TOKEN) id = u->unknown;
    if (id == NO_TOKEN)
        return fail(E_VALUE, "encode: the text has a character that is not in the vocabulary, which has no token for "
                             "unknown characters");
    ids_add(out, id);
    return 0;
}

/* Marks the ends of the pieces of the best division, from the end of the text back. */
static void
mark_ends(struct division *best, size_t n)
{
    for (size_t at = n; at;) {
        size_t from = best[at].from;
        best[at].known = true;
        for (size_t i = from + 1; i < at; i++) best[i].known = false;
        at = from;
    }
}

/* Adds the tokens of a division whose piece ends are marked. Encodes neighbouring unknown characters together. */
static int
add_division(const struct unigram *u, const struct bpe *vocabulary, const uint8_t *text, size_t n,
             const struct division *best, struct ids *out)
{
    size_t unknown = 0;
    for (size_t at = 1; at <= n; at++) {
        if (!best[at].known) continue;
        bool more = at < n && best[at].id == NO_TOKEN;
        if (best[at].id != NO_TOKEN) {
            if (best[at].from > unknown) TRY(add_unknown(u, vocabulary, text + unknown, best[at].from - unknown, out));
            ids_add(out, best[at].id);
            unknown = at;
        } else if (!more) {
            TRY(add_unknown(u, vocabulary, text + unknown, at - unknown, out));
        }
    }
    return 0;
}

int
unigram_encode(const struct unigram *u, const struct bpe *vocabulary, const uint8_t *piece, size_t n, struct ids *out)
{
    struct division *best = must_alloc(sizeof *best * (n + 1));
    int64_t since = 0;
    int status = 0;
    int32_t c;
    for (size_t at = 0, k; at < n && !status; at += k) {
        k = utf8_next(piece + at, n - at, &c);
        extend_from(u, piece, n, at, k, best);
        status = stop_caller_after(&since, 1);
    }
    mark_ends(best, n);
    if (!status) status = add_division(u, vocabulary, piece, n, best, out);
    free(best);
    return status;
}
