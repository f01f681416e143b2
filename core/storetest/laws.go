package storetest

// mixed is the algorithms of a law that mixes them itself.
var mixed = []string{"any mix"}

// laws are the laws, those of a single check first. Each is checked for every
// algorithm that it is about.
var laws = []law{
	{"never more and never less than the definition allows", nil, exactlyTheDefinition},
	{"never more than the capacity at one instant", nil, neverMoreAtOneInstant},
	{"concurrent callers share one budget exactly", nil, concurrentCallers},
	{"fractions of a drip are kept", meters, fractionsAreKept},
	{"a full recovery makes a key as good as new and no better", nil, fullRecovery},
	{"Remaining is exact", nil, remainingIsExact},
	{"the same request passes at RetryAfter and not one tick before", nil, honestRetryAfter},
	{"Remaining grows at NextAfter and not one tick before", nil, honestNextAfter},
	{"the key is as good as new at ResetAfter and not one tick before", nil, honestResetAfter},
	{"a mix passes at the largest RetryAfter and not one tick before", mixed, honestJointRetryAfter},
	{"a cost above the capacity is Never, in every mix", nil, neverAboveCapacity},
	{"a denial changes nothing", nil, denialChangesNothing},
	{"hammering does not postpone anything", nil, hammering},
	{"all or nothing", mixed, allOrNothing},
	{"all or nothing over several keys", nil, allOrNothingOverKeys},
	{"duplicate checks add up in order", nil, duplicatesAddUp},
	{"a shadow check gates nothing and is gated by nothing", nil, shadowGatesNothing},
	{"peek leaves no trace and tells what would be", nil, peekLeavesNoTrace},
	{"peek's Remaining is what is left before a charge", nil, peekTellsWhatIsLeft},
	{"a cost of 0 is always allowed and charges nothing", nil, costOfNothing},
	{"calls without sense are errors that change nothing", nil, callsWithoutSense},
	{"a clock that steps back mints nothing and locks nobody out longer than the recovery", nil, clockStepsBack},
	{"a clock that steps back into the window before mints nothing", []string{"sliding-window"}, backIntoTheWindowBefore},
	{"keys are apart", nil, keysAreApart},
	{"limits with other numbers do not share state", nil, otherNumbers},
	{"limits of other algorithms and names do not share state", nil, otherNames},
	{"a named limit keeps what was used", nil, namedKeepsUsed},
	{"a named limit made smaller is clamped for good", nil, namedIsClamped},
	{"a named limit made smaller is clamped for good, the previous window too", []string{"sliding-window"}, previousIsClamped},
	{"a named limit with other numbers has as much used, or is full", nil, renumberedKeepsUsed},
	{"a named limit made longer tells when the same request passes", exceptSliding, longerTellsWhen},
	{"what was used in the previous window fills a smaller capacity", []string{"sliding-window"}, previousFills},
	{"a named calendar limit with a shorter period keeps its window", []string{"calendar"}, shorterKeepsWindow},
	{"a calendar window counts until its later end, where clocks reckon it otherwise", []string{"calendar"}, countsUntilLaterEnd},
	{"Reset makes a key as good as new", nil, resetMakesNew},
	{"admitted requests leave at an even pace", []string{"shaping"}, evenPace},
	{"nobody else is asked to queue", except("shaping"), nobodyQueues},
	{"a check without a cost asks for one unit", nil, oneUnitByDefault},
	{"AllowAtMost grants as many units as fit", nil, atMostGrantsWhatFits},
	{"a caller who has gone is told so and not charged", nil, goneCaller},
}
