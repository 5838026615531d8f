/* jupyter_wire.h - Jupyter's messages as frames: identities, "<IDS|MSG>", a signature, and four texts of JSON, which
 * are header, parent header, metadata and content. The signature is HMAC-SHA256 of the four in hexadecimal; with an
 * empty key nobody signs. Source: jupyter-client.readthedocs.io/en/stable/messaging.html, protocol 5.3.
 *
 * Whoever makes frames and messages owns them, on any thread; nothing here knows of sockets. */
#ifndef RILLE_SHELL_JUPYTER_WIRE_H
#define RILLE_SHELL_JUPYTER_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { FRAMES_MAX = 32, WIRE_KEY = 256, WIRE_UUID = 33 };

struct frames {
    int n;
    struct frame {
        char *data; /* a zero byte follows */
        size_t size;
    } frame[FRAMES_MAX];
};
/* Adds a copy; false beyond FRAMES_MAX, where it adds nothing. */
bool frames_add(struct frames *f, const void *data, size_t size);
bool frames_equal(const struct frames *a, const struct frames *b);
void frames_free(struct frames *f);

struct wire { /* both ends of a kernel's connection know it */
    char key[WIRE_KEY];
    char session[WIRE_UUID];
};
/* Draws the session; non-zero: there are no random numbers. */
int wire_open(struct wire *w);

struct message {
    struct frames ids; /* whom a reply goes to */
    json_t *header, *content;
};
/* Takes the frames apart; NULL, or what is wrong with them, and then the message is empty. */
const char *message_read(const struct wire *w, const struct frames *f, struct message *m);
void message_free(struct message *m);
const char *message_type(const struct message *m);
/* Adds the frames of a message with this content, which it takes, to out; parent: what it answers, or NULL. addressed:
 * with the parent's identities before it. */
void message_write(const struct wire *w, struct frames *out, const struct message *parent, bool addressed,
                   const char *type, json_t *content);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. */
json_t *wire_text(const char *text, size_t size);
/* How many of the bytes end in a whole character: what comes next may complete the rest. */
size_t wire_whole(const char *text, size_t size);

#endif
