/* tiktoken.c - reads *.tiktoken files. Each line has a token in base64 and its rank, which is also its id. */
#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"
#include "runtime/text/characters/base64.h"
#include "runtime/text/tokenizer.h"

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
