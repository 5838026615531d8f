/* tokenizer.h - from text to ids and back: special tokens, normal forms, patterns that cut text, byte-pair encoding.
 *
 * A tokenizer comes from tokenizer.json (Hugging Face; byte-level BPE alone, it refuses anything else by name) or
 * *.tiktoken (a line a token: base64 and rank), or from training. Text is any bytes; decoding what encoding gave is the
 * same bytes, unless the tokenizer has a normal form, drops spaces around a special token, puts one before a piece or
 * drops what lies between pieces. Errors name the file. One owner and one thread: it caches pieces. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_H

#include "runtime/str.h"
#include "runtime/text/bpe.h"
#include "runtime/text/normal.h"
#include "runtime/text/split.h"

struct special {
    const char *text;
    size_t n;
    uint32_t id;
    bool control;     /* "special" in tokenizer.json: not part of plain text */
    bool normalized;  /* the encoder looks for its normal form in the text's, after the others; the first of equals */
    bool left, right; /* takes the white space before it, behind it, along */
    bool word;        /* is one only where no word goes on before it or behind it */
};

struct join { /* in order of rank, for saving */
    uint32_t left, right, id;
};

enum { MAX_FORMS = 4, NPARTS = 5 };

struct tokenizer {
    struct bpe bpe;
    struct splitter *splitter;
    struct splitter *word; /* removes characters of words; NULL: no special token asks what these are */
    const char *pattern;   /* of a tokenizer that is not from tokenizer.json; NULL: GPT-2's */
    enum dialect dialect;  /* of that pattern */
    enum normal_form form[MAX_FORMS];
    int nform;
    struct special *special; /* the longest first */
    int nspecial, special_capacity;
    bool starts[2][256];      /* does a special token begin with this byte? by `normalized` */
    struct ids before, after; /* what the template puts around a text */
    bool templated;           /* there is one */
    bool spelled;             /* the file has a ByteLevel step, behind which nothing may cut */
    const char *part[NPARTS]; /* JSON of the file, for saving; by enum part (tokenizer_json.h) */
    struct join *join;
    uint32_t njoin, join_capacity;
};

struct tokenizer *tokenizer_new(void);
void tokenizer_free(struct tokenizer **t);
/* The path's end tells the format. pattern, special (texts) and their ids (NULL: those behind the last) are for
 * .tiktoken. */
int tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special, const int64_t *ids,
                   struct tokenizer **out);
/* tokenizer.json, in its spelling that all readers know. */
int tokenizer_save(struct tokenizer *t, const char *path);

int tokenizer_encode(struct tokenizer *t, const void *text, size_t n, struct ids *out);
/* E_VALUE naming an id that is none. */
int tokenizer_decode(const struct tokenizer *t, size_t n, const int64_t *id, struct str *out);

/* What the file says of batches of texts, which encoding does not do; NULL: nothing. */
const char *tokenizer_batches(const struct tokenizer *t);

/* A token that is no part of plain text. */
bool tokenizer_is_special(const struct tokenizer *t, int64_t id);

/* A trainer learns from texts, one by one: size ids in all, of which the specials are the last. Where the texts have no
 * more pairs it reserves ids: "<|reserved_0|>" and so on. */
struct trainer;
struct trainer *trainer_new(const char *pattern, int nspecial, const char *const *special);
void trainer_free(struct trainer **r);
int trainer_add(struct trainer *r, const void *text, size_t n);
int trainer_end(struct trainer *r, uint32_t size, struct tokenizer **out);

/* ---- for readers ---- */

/* Sets the one pattern of a tokenizer that is not from tokenizer.json; NULL: GPT-2's. */
int tokenizer_cut(struct tokenizer *t, const char *name, const char *pattern, enum dialect dialect);
int tokenizer_special(struct tokenizer *t, const char *name, const struct special *s); /* copies its text */
/* E_ARG unless the id of a token is neither below zero nor far beyond what ntoken tokens need. */
int tokenizer_check_id(const char *name, const char *token, int64_t id, size_t ntoken);
/* E_ARG unless special tokens are texts with bytes, each there once. */
int tokenizer_check_specials(const char *name, int nspecial, const char *const *special);
void tokenizer_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id);
int tokenizer_read_json(struct tokenizer *t, const char *path);
int tokenizer_read_tiktoken(struct tokenizer *t, const char *path, const char *pattern, int nspecial,
                            const char *const *special, const int64_t *ids);

#endif
