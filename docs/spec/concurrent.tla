----------------------------- MODULE concurrent -----------------------------
(***************************************************************************)
(* The limit "at most N at once": holders ask a store for one of N places, *)
(* each for the time of a lease, and renew the lease while they work.      *)
(*                                                                         *)
(* internal/checked is the same model in Go, with the same names. It also  *)
(* has the resource that checks tokens, slow clocks and older renewals.    *)
(*                                                                         *)
(* A message is in flight until it is executed, and again after that: so   *)
(* it can be late, overtaken, repeated, or never arrive. A holder acquires *)
(* once; who acquires again is another holder. A paused process is one     *)
(* that does nothing while time passes.                                    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Holders,    \* who may ask for a place
    N,          \* places
    Lease,      \* ticks that a place is held without a renewal
    Margin,     \* ticks by which a holder gives up early
    Ticks,      \* how far the search looks ahead
    Executions, \* how often one acquire may be executed: 2 has a client repeat it
    Failovers,  \* how often the store may lose everything
    Back,       \* ticks by which the store's clock may step back, once; 0 for never
    Forward     \* the same, forward

VARIABLES
    phase,    \* of a holder: "fresh", "acquiring", "holding", "gone" or "crashed"
    flight,   \* messages of a holder that are in flight
    runs,     \* how often the acquire of a holder may still be executed
    age,      \* ticks since the last successful request of a holder was sent, at most Lease
    wait,     \* ticks since the newest renewal of a holder was sent; -1 without one
    expiry,   \* in the store: when the lease of a member ends; 0 is no member
    last,     \* in the store: the last token
    newest,   \* the largest token that was ever granted
    grown,    \* FALSE once a token was not larger than all before it
    places,   \* how many places there are now
    now,      \* the store's clock
    ticks,    \* how much time has passed
    steps,    \* how often the clock has stepped
    fails     \* how often the store has failed over

vars == <<phase, flight, runs, age, wait, expiry, last, newest, grown, places, now, ticks, steps, fails>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

Lives(h) == expiry[h] > now
Living   == {h \in Holders : Lives(h)}

\* A holder believes until its last successful request is a lease old, less the margin, by its own clock.
Believes(h) == phase[h] = "holding" /\ age[h] < Lease - Margin
Believing   == {h \in Holders : Believes(h)}

Init ==
    /\ phase  = [h \in Holders |-> "fresh"]
    /\ flight = [h \in Holders |-> {}]
    /\ runs   = [h \in Holders |-> Executions]
    /\ age    = [h \in Holders |-> 0]
    /\ wait   = [h \in Holders |-> -1]
    /\ expiry = [h \in Holders |-> 0]
    /\ last = 0 /\ newest = 0 /\ grown = TRUE
    /\ places = N /\ now = 1 /\ ticks = 0 /\ steps = 0 /\ fails = 0

store == <<expiry, last, newest, grown>>
world == <<places, now, ticks, steps, fails>>

-----------------------------------------------------------------------------
(* What a holder does by itself.                                           *)

SendAcquire(h) ==
    /\ phase[h] = "fresh"
    /\ phase'  = [phase EXCEPT ![h] = "acquiring"]
    /\ flight' = [flight EXCEPT ![h] = {"acquire"}]
    /\ UNCHANGED <<runs, age, wait, store, world>>

\* A renewal that has not been answered is given up for the new one.
SendRenew(h) ==
    /\ Believes(h)
    /\ flight' = [flight EXCEPT ![h] = (@ \ {"renewed", "notHeld"}) \cup {"renew"}]
    /\ wait'   = [wait EXCEPT ![h] = 0]
    /\ UNCHANGED <<phase, runs, age, store, world>>

\* The replies that nobody waits for are forgotten; requests may still be executed.
Leave(h) ==
    /\ phase'  = [phase EXCEPT ![h] = "gone"]
    /\ flight' = [flight EXCEPT ![h] = (@ \cap {"acquire", "renew"}) \cup {"release"}]
    /\ age'    = [age EXCEPT ![h] = 0]
    /\ wait'   = [wait EXCEPT ![h] = -1]

Release(h) ==
    /\ phase[h] \in {"acquiring", "holding"}
    /\ Leave(h)
    /\ UNCHANGED <<runs, store, world>>

Crashes(h) ==
    /\ phase[h] \in {"acquiring", "holding"}
    /\ phase'  = [phase EXCEPT ![h] = "crashed"]
    /\ flight' = [flight EXCEPT ![h] = @ \cap {"acquire", "renew", "release"}]
    /\ age'    = [age EXCEPT ![h] = 0]
    /\ wait'   = [wait EXCEPT ![h] = -1]
    /\ UNCHANGED <<runs, store, world>>

-----------------------------------------------------------------------------
(* What the store does, each in one step.                                  *)

\* Drop the expired, count, and add if there is room. The token is the clock, or the last token + 1.
ExecuteAcquire(h) ==
    /\ "acquire" \in flight[h] /\ runs[h] > 0
    /\ runs' = [runs EXCEPT ![h] = @ - 1]
    /\ LET token    == Max(last + 1, now)
           granted  == Cardinality(Living) < places
           kept     == [g \in Holders |-> IF Lives(g) THEN expiry[g] ELSE 0]
           answered == IF phase[h] # "acquiring" THEN {} ELSE IF granted THEN {"granted"} ELSE {"denied"}
       IN  /\ expiry' = IF granted THEN [kept EXCEPT ![h] = now + Lease] ELSE kept
           /\ last'   = IF granted THEN token ELSE last
           /\ newest' = IF granted THEN Max(newest, token) ELSE newest
           /\ grown'  = (grown /\ (granted => token > newest))
           \* The holder reads one reply: of two, the first or the second.
           /\ \/ flight' = [flight EXCEPT ![h] = (@ \ {"granted", "denied"}) \cup answered]
              \/ flight[h] \cap {"granted", "denied"} # {} /\ flight' = flight
    /\ UNCHANGED <<phase, age, wait, world>>

\* Move the expiry of a member whose lease has not ended; nothing else.
ExecuteRenew(h) ==
    /\ "renew" \in flight[h]
    /\ expiry' = IF Lives(h) THEN [expiry EXCEPT ![h] = now + Lease] ELSE expiry
    /\ flight' = IF wait[h] < 0 THEN flight
                 ELSE [flight EXCEPT ![h] = @ \cup {IF Lives(h) THEN "renewed" ELSE "notHeld"}]
    /\ UNCHANGED <<phase, runs, age, wait, last, newest, grown, world>>

ExecuteRelease(h) ==
    /\ "release" \in flight[h]
    /\ expiry' = [expiry EXCEPT ![h] = 0]
    /\ UNCHANGED <<phase, flight, runs, age, wait, last, newest, grown, world>>

-----------------------------------------------------------------------------
(* Replies arrive.                                                         *)

AcquireReplyArrives(h) ==
    /\ phase[h] = "acquiring"
    /\ \/ /\ "granted" \in flight[h] /\ age[h] < Lease - Margin
          /\ phase'  = [phase EXCEPT ![h] = "holding"]
          /\ flight' = [flight EXCEPT ![h] = @ \ {"granted"}]
          /\ UNCHANGED <<age, wait>>
       \/ "granted" \in flight[h] /\ age[h] >= Lease - Margin /\ Leave(h)
       \/ /\ "denied" \in flight[h]
          /\ phase'  = [phase EXCEPT ![h] = "gone"]
          /\ flight' = [flight EXCEPT ![h] = @ \ {"denied"}]
          /\ age'    = [age EXCEPT ![h] = 0]
          /\ UNCHANGED wait
    /\ UNCHANGED <<runs, store, world>>

\* The lease counts from when the renewal was sent. A permit that has ended does not come back.
RenewReplyArrives(h) ==
    /\ \/ /\ "renewed" \in flight[h]
          /\ flight' = [flight EXCEPT ![h] = @ \ {"renewed"}]
          /\ IF Believes(h)
             THEN age' = [age EXCEPT ![h] = wait[h]] /\ wait' = [wait EXCEPT ![h] = -1]
             ELSE UNCHANGED <<age, wait>>
          /\ UNCHANGED phase
       \/ "notHeld" \in flight[h] /\ Leave(h)
    /\ UNCHANGED <<runs, store, world>>

-----------------------------------------------------------------------------
(* What happens to all.                                                    *)

Tick ==
    /\ ticks < Ticks
    /\ ticks' = ticks + 1 /\ now' = now + 1
    /\ age'  = [h \in Holders |-> IF phase[h] \in {"acquiring", "holding"} THEN Min(age[h] + 1, Lease) ELSE age[h]]
    /\ wait' = [h \in Holders |-> IF wait[h] >= 0 THEN Min(wait[h] + 1, Lease) ELSE -1]
    /\ UNCHANGED <<phase, flight, runs, store, places, steps, fails>>

ClockSteps ==
    /\ steps = 0
    /\ \/ Forward > 0 /\ now' = now + Forward
       \/ Back > 0 /\ now > Back /\ now' = now - Back
    /\ steps' = 1
    /\ UNCHANGED <<phase, flight, runs, age, wait, store, places, ticks, fails>>

\* The store loses everything. That takes longer than the last token is ahead of the clock.
Failover ==
    /\ fails < Failovers /\ last < now
    /\ fails' = fails + 1
    /\ expiry' = [h \in Holders |-> 0] /\ last' = 0
    /\ UNCHANGED <<phase, flight, runs, age, wait, newest, grown, places, now, ticks, steps>>

Shrinks ==
    /\ places = N /\ N > 1
    /\ places' = places - 1
    /\ UNCHANGED <<phase, flight, runs, age, wait, store, now, ticks, steps, fails>>

Next ==
    \/ \E h \in Holders :
        \/ SendAcquire(h) \/ SendRenew(h) \/ Release(h) \/ Crashes(h)
        \/ ExecuteAcquire(h) \/ ExecuteRenew(h) \/ ExecuteRelease(h)
        \/ AcquireReplyArrives(h) \/ RenewReplyArrives(h)
    \/ Tick \/ ClockSteps \/ Failover \/ Shrinks

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The laws.                                                               *)

\* Law 1: never more than n unexpired holders in the store.
AtMostN == Cardinality(Living) <= N

\* Law 2: whoever believes is an unexpired holder in the store. Not with Failovers or Forward.
Belief == \A h \in Holders : Believes(h) => Lives(h)

\* What a failover and a clock that steps forward do: n more for each.
NMoreBelieve == Cardinality(Believing) <= N * (1 + fails + steps)

\* Law 3: a holder whose lease has ended does not come back without an acquire.
DeadStaysDead == [][steps' = steps => \A h \in Holders : (~Lives(h) /\ Lives(h)') => ExecuteAcquire(h)]_vars

\* Law 3: an acquire is granted if and only if fewer than n are unexpired.
FreeIsGranted == [][\A h \in Holders : ExecuteAcquire(h) =>
    (Cardinality(Living) < places <=> last' # last)]_vars

\* Law 4: a release removes its own holder and nobody else, however often it is executed.
ReleaseRemovesOnlyItself == [][\A h \in Holders : ExecuteRelease(h) =>
    \A g \in Holders : expiry'[g] = IF g = h THEN 0 ELSE expiry[g]]_vars

\* Law 6: the tokens of a key grow strictly. Not with Failovers and Back together.
TokensGrow == grown

\* Law 7: shrinking n evicts nobody.
ShrinkingEvictsNobody == [][places' < places => expiry' = expiry]_vars
=============================================================================
