/* doorbell.pml - a model of bus_zmq's doorbells: two threads send messages; one thread receives, sleeps and is woken.
 *
 * Each load, store and exchange is a step of the model, because these operations are sequentially consistent in the
 * program. The model asserts three facts: no message is lost, the receiver never sleeps for ever, and at most one
 * wake message is queued. t/plan/promela.c checks the model. It also checks that the model fails if the receiver does
 * not look at the bells a second time before it sleeps. */

#define SENDERS 2
#define EACH 2

chan queue[SENDERS] = [EACH] of { byte };
chan wake = [2] of { bit };
byte bell[SENDERS]; /* number of messages that each sender has sent */
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
        bell[me]++; /* only this sender writes its bell */
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
                assert(m == taken[s]); /* messages arrive in the order sent */
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
        :: else -> /* no bell has rung: the receiver prepares to sleep */
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
                :: was == 0 -> wake?_ /* a sender is about to send the wake message */
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
