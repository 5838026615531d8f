/* tokenizer.h - text to ids and back: special tokens, normal forms, patterns that cut text, byte-pair encoding.
 *
 * A tokenizer is read from tokenizer.json (Hugging Face; byte-level BPE only, other kinds are refused by name) or
 * from *.tiktoken (per line a token in base64 and its rank), or is trained. Text may be any bytes. Decoding returns
 * the encoded bytes, unless the tokenizer has a normal form, drops spaces around a special token, adds a space
 * before a piece, or drops text between pieces. Errors name the file. One owner and one thread, because of the cache
 * of pieces. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_H

#include "runtime/base/str.h"
#include "runtime/text/bpe.h"
#include "runtime/text/normal.h"
#include "runtime/text/split.h"

struct special {
    const char *text;
    size_t n;
    uint32_t id;
    bool control;     /* "special" in tokenizer.json: not part of plain text */
    bool normalized;  /* matched in normalized text, after the others; the first of equals wins */
    bool left, right; /* also consumes white space before, after the token */
    bool word;        /* matches only if no word character precedes or follows */
};

struct join { /* in order of rank; for saving */
    uint32_t left, right, id;
};

enum { MAX_FORMS = 4, NPARTS = 5 };

struct tokenizer {
    struct bpe bpe;
    struct splitter *splitter;
    struct splitter *word; /* matches word characters; NULL: no special token needs them */
    const char *pattern;   /* single pattern, if not from tokenizer.json; NULL: GPT-2's */
    enum dialect dialect;  /* of that pattern */
    enum normal_form form[MAX_FORMS];
    int nform;
    struct special *special; /* longest first */
    int nspecial, special_capacity;
    bool starts[2][256];      /* by `normalized`: first bytes of special tokens */
    struct ids before, after; /* ids the template adds around a text */
    bool templated;           /* the file has a template */
    bool spelled;             /* a ByteLevel step was read; no later step may cut */
    const char *part[NPARTS]; /* by enum part (tokenizer_json.h): JSON of the file, for saving */
    struct join *join;
    uint32_t njoin, join_capacity;
};

struct tokenizer *tokenizer_new(void);
void tokenizer_free(struct tokenizer **t);
/* Opens a file; the path's ending chooses the format. pattern, special (texts) and ids (NULL: those after the last)
 * are for .tiktoken only. */
int tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special, const int64_t *ids,
                   struct tokenizer **out);
/* Saves as tokenizer.json, in the form that all readers accept. */
int tokenizer_save(struct tokenizer *t, const char *path);

int tokenizer_encode(struct tokenizer *t, const void *text, size_t n, struct ids *out);
/* E_VALUE naming an unknown id. */
int tokenizer_decode(const struct tokenizer *t, size_t n, const int64_t *id, struct str *out);

/* Returns the file's options for batches of texts, which encoding ignores; NULL: none. */
const char *tokenizer_batches(const struct tokenizer *t);

/* Returns true if the id is a control token, not part of plain text. */
bool tokenizer_is_special(const struct tokenizer *t, int64_t id);

/* Learns a vocabulary from texts, added one by one. size: number of ids, the last of them the specials. If the texts
 * run out of pairs, the remaining ids are reserved: "<|reserved_0|>" and so on. */
struct trainer;
struct trainer *trainer_new(const char *pattern, int nspecial, const char *const *special);
void trainer_free(struct trainer **r);
int trainer_add(struct trainer *r, const void *text, size_t n);
int trainer_end(struct trainer *r, uint32_t size, struct tokenizer **out);

/* ---- for readers ---- */

/* Sets the one pattern of a tokenizer that is not from tokenizer.json; NULL: GPT-2's. */
int tokenizer_cut(struct tokenizer *t, const char *name, const char *pattern, enum dialect dialect);
int tokenizer_special(struct tokenizer *t, const char *name, const struct special *s); /* copies the text */
/* E_ARG if the id of a token is negative or far above what ntoken tokens need. */
int tokenizer_check_id(const char *name, const char *token, int64_t id, size_t ntoken);
/* E_ARG unless the special tokens are distinct and not empty. */
int tokenizer_check_specials(const char *name, int nspecial, const char *const *special);
void tokenizer_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id);
int tokenizer_read_json(struct tokenizer *t, const char *path);
int tokenizer_read_tiktoken(struct tokenizer *t, const char *path, const char *pattern, int nspecial,
                            const char *const *special, const int64_t *ids);

#endif
