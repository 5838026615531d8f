/* jupyter_wire.h - Jupyter's messages as frames: identities, "<IDS|MSG>", a signature, and four JSON texts: header,
 * parent header, metadata and content. The signature is HMAC-SHA256 of the four texts in hexadecimal; with an empty
 * key messages are unsigned. Source: jupyter-client.readthedocs.io/en/stable/messaging.html, protocol 5.3.
 *
 * The caller owns frames and messages; any thread. This file does not use sockets. */
#ifndef RILLE_SHELL_JUPYTER_WIRE_H
#define RILLE_SHELL_JUPYTER_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { FRAMES_MAX = 32, WIRE_KEY = 256, WIRE_UUID = 33 };

struct frames {
    int n;
    struct frame {
        char *data; /* the bytes of the frame, followed by a zero byte */
        size_t size;
    } frame[FRAMES_MAX];
};
/* Appends a copy of the data as a frame. Returns false, and adds nothing, if there are FRAMES_MAX frames. */
bool frames_add(struct frames *f, const void *data, size_t size);
bool frames_equal(const struct frames *a, const struct frames *b);
void frames_free(struct frames *f);

struct wire { /* key of the signatures, and id of the session */
    char key[WIRE_KEY];
    char session[WIRE_UUID];
};
/* Draws a random session id; non-zero: no random numbers are available. */
int wire_open(struct wire *w);

struct message {
    struct frames ids; /* routing identities (ZeroMQ) of the clients to which the reply is sent */
    json_t *header, *content;
};
/* Parses the frames and verifies the signature. Returns NULL, or the error; after an error the message is empty. */
const char *message_read(const struct wire *w, const struct frames *f, struct message *m);
void message_free(struct message *m);
const char *message_type(const struct message *m);
/* Appends the frames of a message to out; consumes the content. parent: the message that is answered, or NULL.
 * addressed: begin with the parent's identities, as a reply must. */
void message_write(const struct wire *w, struct frames *out, const struct message *parent, bool addressed,
                   const char *type, json_t *content);

/* Returns a JSON string of any bytes; invalid UTF-8 becomes U+FFFD. */
json_t *wire_text(const char *text, size_t size);
/* Returns the length of the longest prefix that ends between two UTF-8 characters. The rest is the beginning of a
 * character, which later bytes may complete. */
size_t wire_whole(const char *text, size_t size);

#endif
