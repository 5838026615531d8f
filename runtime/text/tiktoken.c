/* tiktoken.c - reads *.tiktoken files. Each line has a token in base64 and its rank, which is also its id. */
#include "runtime/base/error.h"
#include "runtime/file/source.h"
#include "runtime/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28 };

static int
base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes complete groups of four characters, the last of which may be padded. out: room for 3 / 4 of n bytes. */
static bool
base64(const char *text, size_t n, uint8_t *out, size_t *bytes)
{
    size_t pad = n && text[n - 1] == '=' ? n > 1 && text[n - 2] == '=' ? 2 : 1 : 0;
    uint32_t group = 0;
    *bytes = 0;
    if (n == 0 || n % 4) return false;
    for (size_t i = 0; i < n; i++) {
        int d = i >= n - pad ? 0 : base64_digit((uint8_t)text[i]);
        if (d < 0) return false;
        group = group << 6 | (uint32_t)d;
        if (i % 4 != 3) continue;
        for (int k = 16; k >= 0; k -= 8) out[(*bytes)++] = (uint8_t)(group >> k);
        group = 0;
    }
    *bytes -= pad;
    return true;
}

/* Reads one line, up to the newline or the end of the text. */
static int
read_token_line(struct tokenizer *t, const char *path, int number, char *line, size_t n, size_t file_bytes)
{
    char *space = memchr(line, ' ', n), *end;
    size_t bytes;
    if (n == 0) return 0;
    unsigned long long rank = space ? strtoull(space + 1, &end, 10) : 0;
    if (!space || end == space + 1 || end != line + n || space[1] < '0' || space[1] > '9' ||
        !base64(line, (size_t)(space - line), (uint8_t *)line, &bytes) || bytes == 0)
        return fail(E_IO, "%s:%d: expected base64 and a rank", path, number);
    if (rank > file_bytes)
        return fail(E_IO, "%s:%d: rank %llu is larger than the number of tokens", path, number, rank);
    if (t->bpe.ntoken > rank && t->bpe.token[rank].bytes)
        return fail(E_IO, "%s:%d: rank %llu occurs twice", path, number, rank);
    if (bpe_find(&t->bpe, line, bytes) != NO_TOKEN) return fail(E_IO, "%s:%d: this token occurs twice", path, number);
    bpe_add(&t->bpe, (uint32_t)rank, line, bytes, true);
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
    TRY(source_whole(path, MAX_FILE, &text, &n));
    int status = read_lines(t, path, text, n);
    free(text);
    if (status) return status;
    t->bpe.whole_piece = true;
    bpe_join_by_id(&t->bpe);
    TRY(tokenizer_cut(t, path, pattern ? pattern : split_cl100k, DIALECT_RUST));
    TRY(tokenizer_check_specials(path, nspecial, special));
    for (int i = 0; i < nspecial; i++) TRY(add_special(t, path, special[i], ids ? ids[i] : t->bpe.ntoken));
    return 0;
}
