// Making failures and saying what happened. Plain data in, plain data out; any thread.
// Must not know: who waits for what.
#pragma once

#include <string>
#include <vector>

#include "hostccl/hostccl.h"

namespace hostccl {

class Segment;

Failure make_failure(FailureKind kind, int reporter, const std::string& text);
void add_rank(Failure& failure, int rank);
void set_text(Failure& failure, const std::string& text);
void set_op(Failure& failure, const char* op);
// Of a failure that comes from elsewhere: it will be shown, and its ranks looked up. What cannot be is taken out of it.
void make_harmless(Failure& failure, int nranks);
Result result_of(FailureKind kind);

// "rank 2", "ranks 0, 1, 3"
std::string rank_list(const std::vector<int>& ranks);
// "0.25 s"
std::string seconds(int64_t ns);

// Of a peer that is dead, or has closed its communicator; while_in: what this rank was doing.
Failure death_of(const Segment& segment, int peer, const std::string& while_in);
Failure closing_of(const Segment& segment, int peer, const std::string& while_in);
// Of a peer on another host that sent what no rank of this build sends. what: "rank 3 sent ..."
Failure nonsense_of(const Segment& segment, int peer, const std::string& what);

}  // namespace hostccl
