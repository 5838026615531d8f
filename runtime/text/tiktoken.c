/* tiktoken.c - reads *.tiktoken files and Mistral's tekken.json.
 *
 * Each line of a *.tiktoken file has a token in base64 and its rank, which is also its id. tekken.json has ranked byte
 * strings, a pattern, and special tokens with the first ids. */
#include "runtime/text/tiktoken.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"
#include "runtime/text/characters/base64.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28 };

/* Patterns of known vocabularies, by name. A file does not say which pattern it needs. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(most)  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" most "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
static const struct {
    const char *name, *pattern;
} patterns[] = {
    {"gpt2", split_gpt2},
    {"cl100k", WORDS("{1,3}")},
    {"o200k", "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
              "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
    {"llama3", WORDS("{1,3}")},
    {"qwen", WORDS("")},
};

/* Returns the known pattern with this name. Any other text is returned as the pattern. E_ARG: no pattern is given. */
static int
pattern_named(const char *path, const char *text, const char **out)
{
    *out = text;
    if (!text)
        return fail(E_ARG,
                    "%s: pattern must be given: \"gpt2\", \"cl100k\", \"o200k\", \"llama3\", \"qwen\" or a regular "
                    "expression",
                    path);
    for (size_t i = 0; i < countof(patterns); i++)
        if (!strcmp(patterns[i].name, text)) *out = patterns[i].pattern;
    return 0;
}

/* Reads one line, up to the newline or the end of the text. */
static int
read_token_line(struct tokenizer *t, const char *path, int number, char *line, size_t n, size_t file_bytes)
{
    char *space = memchr(line, ' ', n), *end;
    size_t bytes = 0;
    if (n == 0) return 0;
    /* true: the line has a token without bytes, as in the file of Whisper */
    bool nothing = space == line + 1 && *line == '=';
    unsigned long long rank = space ? strtoull(space + 1, &end, 10) : 0;
    if (!space || end == space + 1 || end != line + n || space[1] < '0' || space[1] > '9' ||
        !(nothing || base64_read(line, (size_t)(space - line), (uint8_t *)line, &bytes)))
        return fail(E_IO, "%s:%d: expected base64 and a rank", path, number);
    if (rank > file_bytes)
        return fail(E_IO, "%s:%d: rank %llu is larger than the number of tokens", path, number, rank);
    if (t->bpe.ntoken > rank && t->bpe.token[rank].bytes)
        return fail(E_IO, "%s:%d: rank %llu occurs twice", path, number, rank);
    if (bpe_find(&t->bpe, line, bytes) != NO_TOKEN) return fail(E_IO, "%s:%d: this token occurs twice", path, number);
    bpe_add(&t->bpe, (uint32_t)rank, line, bytes, bytes > 0);
    return 0;
}

static int
read_lines(struct tokenizer *t, const char *path, char *text, size_t n)
{
    int number = 0;
    for (char *at = text, *end; at < text + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        if (!end) end = text + n; /* the last line may lack a newline */
        size_t length = (size_t)(end - at);
        *end = '\0';
        if (length && at[length - 1] == '\r') at[--length] = '\0';
        TRY(read_token_line(t, path, ++number, at, length, n));
    }
    return 0;
}

static int
add_special(struct tokenizer *t, const char *path, const char *text, int64_t id)
{
    TRY(tokenizer_check_id(path, text, id, t->bpe.ndistinct));
    if (id < t->bpe.ntoken && t->bpe.token[id].bytes)
        return fail(E_ARG, "%s: the special token '%.100s' has id %lld, which belongs to another token", path, text,
                    (long long)id);
    return tokenizer_special(t, path, &(struct special){text, strlen(text), (uint32_t)id, .control = true});
}

int
tokenizer_read_tiktoken(struct tokenizer *t, const char *path, const char *pattern, int nspecial,
                        const char *const *special, const int64_t *ids)
{
    char *text;
    size_t n;
    TRY(pattern_named(path, pattern, &pattern));
    TRY(source_whole(path, MAX_FILE, &text, &n));
    int status = read_lines(t, path, text, n);
    free(text);
    if (status) return status;
    t->bpe.whole_piece = true;
    bpe_join_by_id(&t->bpe);
    TRY(tokenizer_cut(t, path, pattern, DIALECT_RUST));
    TRY(tokenizer_check_specials(path, nspecial, special));
    for (int i = 0; i < nspecial; i++) TRY(add_special(t, path, special[i], ids ? ids[i] : t->bpe.ntoken));
    return 0;
}

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
