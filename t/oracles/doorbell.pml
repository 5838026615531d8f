/* doorbell.pml - bus_zmq's doorbells: two threads send, one takes messages, sleeps and is woken. Each load, store and
 * exchange is a step of its own; they are sequentially consistent in the program. Nothing is lost, nobody sleeps for ever,
 * and there is one wake message at most. t/plan/promela.c checks it, and that without the second look at the bells it
 * fails. */

#define SENDERS 2
#define EACH 2

chan queue[SENDERS] = [EACH] of { byte };
chan wake = [2] of { bit };
byte bell[SENDERS]; /* counted by the sender */
bit sleeping;
byte received;

inline exchange(old) { atomic { old = sleeping; sleeping = 0 } }

proctype sender(byte me)
{
    byte k;
    bit was;
    do
    :: k < EACH ->
        queue[me]!k;
        bell[me]++; /* the one writer of it */
        if
        :: sleeping == 1 ->
            exchange(was);
            if
            :: was == 1 -> assert(len(wake) == 0); wake!1
            :: else
            fi
        :: else
        fi;
        k++
    :: else -> break
    od
}

active proctype receiver()
{
    byte taken[SENDERS], s, m;
    bit was;
    bool rang;
    do
    :: received < SENDERS * EACH ->
        rang = false;
        s = 0;
        do
        :: s < SENDERS ->
            if
            :: bell[s] > taken[s] ->
                assert(nempty(queue[s])); /* an empty socket is never read */
                queue[s]?m;
                assert(m == taken[s]); /* in the order sent */
                taken[s]++;
                received++;
                rang = true
            :: else
            fi;
            s++
        :: else -> break
        od;
        if
        :: rang
        :: else -> /* nothing rings: it goes to sleep */
            sleeping = 1;
            s = 0;
            do /* the second look */
            :: s < SENDERS -> if :: bell[s] > taken[s] -> rang = true :: else fi; s++
            :: else -> break
            od;
            if
            :: rang ->
                exchange(was);
                if
                :: was == 0 -> wake?_ /* somebody is waking it */
                :: else
                fi
            :: else -> wake?_
            fi
        fi
    :: else -> break
    od;
    assert(len(wake) == 0 && sleeping == 0)
}

init { atomic { run sender(0); run sender(1) } }
