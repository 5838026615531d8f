/* tokenizer.h - encodes text as ids, and decodes ids.
 *
 * Encoding cuts a text at special tokens, changes it (normalizers.h), splits it (split.h), and encodes the pieces
 * by a model (BPE, Unigram, WordPiece, WordLevel). Decoding joins the texts of the tokens (decoders.h). A
 * tokenizer is read from tokenizer.json (Hugging Face), *.tiktoken (each line has a token in base64 and its rank),
 * tekken.json (Mistral) or *.model (SentencePiece), or is trained. Text may be any bytes. A byte-level BPE
 * tokenizer decodes to the encoded bytes, except in these cases: the tokenizer has a normal form, drops spaces
 * around a special token, adds a space before a piece, or drops text between pieces. Errors name the file. A
 * tokenizer has one owner, and only one thread may use it, because it caches pieces. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_H

#include "runtime/data/str.h"
#include "runtime/text/decoders.h"
#include "runtime/text/normalizers.h"
#include "runtime/text/encode/split.h"
#include "runtime/text/encode/unigram.h"

struct special {
    const char *text; /* text to search for; normalized, if `normalized` is set */
    size_t n;
    uint32_t id;
    bool control; /* true: a control token, which is not part of plain text ("special" in tokenizer.json) */
    /* true: the token is matched in normalized text, after the tokens without this flag. If several tokens have
     * one text, the first of them is used */
    bool normalized;
    /* true: the match of the token includes the white space before it (left), or after it (right) */
    bool left, right;
    bool word;   /* true: the token matches only if no word character is directly before or after it */
    bool hidden; /* true: texts are not searched for the token */
    struct span_text {
        const char *text;
        size_t n;
    } own; /* text in the file, before it is normalized; set by tokenizer_special() */
};

struct join { /* a merge of two tokens, kept for saving; merges are listed in order of rank */
    uint32_t left, right, id;
};

enum { NPARTS = 6 };

struct tokenizer {
    struct bpe bpe;
    struct splitter *splitter;
    struct splitter *word; /* tests for word characters; NULL: no special token needs it */
    const char *pattern;   /* the pattern of a tokenizer that is not from tokenizer.json; NULL: that of GPT-2 */
    enum dialect dialect;  /* dialect of that pattern */
    struct normalizers normal;
    struct decoders decoders;
    /* Appends the ids of a piece; byte-level BPE, unless a file's reader sets another model. */
    int (*encode)(struct tokenizer *t, const uint8_t *piece, size_t n, struct ids *out);
    struct unigram *unigram; /* Unigram model; NULL: the tokenizer has another model */
    struct {
        const char *prefix;  /* prefix in the texts of pieces that are not the start of a word */
        size_t longest;      /* maximum length of a word, characters; longer words are unknown */
        uint32_t unknown;    /* token of an unknown word; NO_TOKEN: an unknown word is an error */
    } word_model;            /* only for WordPiece and WordLevel */
    struct special *special; /* special tokens, longest first */
    int nspecial, special_capacity;
    bool starts[2][256];      /* starts[normalized][byte]: true if a special token begins with the byte */
    struct ids before, after; /* ids that the template adds before and after a text */
    bool templated;           /* true: the file has a template */
    bool byte_level;          /* true: the file has a step of type ByteLevel */
    bool spelled;             /* true: each character of a piece stands for a byte (alphabet.h) */
    bool twofold;             /* true: a special token shares its id with a byte (tokenizer_special) */
    /* content of the file, which saving copies; empty: saving writes the fields of this struct */
    struct str file;
    const char *file_end;     /* ending of the file's name, for saving */
    const char *part[NPARTS]; /* by enum part (tokenizer_json.h): JSON from the file, for saving */
    struct join *join;
    uint32_t njoin, join_capacity;
};

struct tokenizer *tokenizer_new(void);
void tokenizer_free(struct tokenizer **t);
/* Opens a tokenizer file; the path's ending decides the format. For .tiktoken: pattern is a regular expression or
 * a name in tiktoken.c; special has the texts of special tokens; ids has their ids (NULL: the ids after the last).
 * For .model: special has the names of control pieces that texts may contain; ids is NULL. */
int tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special, const int64_t *ids,
                   struct tokenizer **out);
/* Makes a tokenizer from the content of a tokenizer.json, n bytes. path: name for error texts. */
int tokenizer_of_text(const char *path, const char *text, size_t n, struct tokenizer **out);

int tokenizer_encode(struct tokenizer *t, const void *text, size_t n, struct ids *out);
/* Decodes n ids. E_VALUE: an id is unknown; the text names it. */
int tokenizer_decode(const struct tokenizer *t, size_t n, const int64_t *id, struct str *out);

/* text_trim_left returns the length of the white space at the start of a text. text_trim_right returns the length
 * of a text without the white space at its end. */
size_t text_trim_left(const uint8_t *text, size_t n);
size_t text_trim_right(const uint8_t *text, size_t n);

/* Returns true if the id is that of a control token, which is not part of plain text. */
bool tokenizer_is_special(const struct tokenizer *t, int64_t id);

/* ---- functions for the readers of file formats ---- */

/* Sets the pattern of a tokenizer that is not from tokenizer.json; NULL: that of GPT-2. */
int tokenizer_cut(struct tokenizer *t, const char *name, const char *pattern, enum dialect dialect);
/* Adds a copy of a special token. The special token may share its id with a token of the vocabulary, if the file
 * spells that token's bytes as the special token's text. */
int tokenizer_special(struct tokenizer *t, const char *name, const struct special *s);
/* Checks the id of a token. E_ARG: the id is negative, or far larger than ntoken tokens need. */
int tokenizer_check_id(const char *name, const char *token, int64_t id, size_t ntoken);
/* Checks special tokens. E_ARG: one is empty, or two are equal. */
int tokenizer_check_specials(const char *name, int nspecial, const char *const *special);
void tokenizer_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id);

#endif
