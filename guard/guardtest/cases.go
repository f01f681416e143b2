package guardtest

import (
	"slices"
	"testing"
)

// testCase is a claim about an adapter and its proof.
type testCase struct {
	claim string
	test  func(*testing.T, *suite)
}

var cases = slices.Concat(
	admissionCases,
	denialCases,
	hookCases,
	policyCases,
	alternativeCases,
	handleCases,
	reloadCases,
	contextCases,
	nestedCases,
	failureCases,
	partialFailureCases,
	faultCases,
	overloadCases,
	keyCases,
	identityCases,
	listCases,
	banCases,
	bypassCases,
	layeredCases,
	routeCases,
	writerCases,
	leavesCases,
	ownCases,
	timedOutCases,
	uploadCases,
	besideCases,
	wireCases,
	rpcCases,
	upstreamCases,
	shapingCases,
	placeCases,
	placeOnceCases,
	placeWaitCases,
	adaptiveCases,
	settleCases,
	settleResponseCases,
	growCases,
	onceCases,
	shadowCases,
	startupCases,
	redisCases,
)
