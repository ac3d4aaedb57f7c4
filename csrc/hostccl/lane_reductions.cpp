// Lane, the collectives that reduce, and what all collectives share. Which data travels with the headers, which through
// rings, and which is read where it lies. Every function runs one collective to its end on the calling thread; false: the
// communicator has failed.

#include <algorithm>
#include <cstring>

#include "hostccl/lane.h"
#include "hostccl/shares.h"
#include "hostccl/turn.h"

namespace hostccl {

bool Lane::dispatch(Turn& turn, const Collective& op) {
  switch (op.kind) {
    case Kind::kBarrier:
      return barrier(turn, op);
    case Kind::kBroadcast:
      return broadcast(turn, op);
    case Kind::kAllReduce:
      return all_reduce(turn, op);
    case Kind::kReduce:
      return reduce_to_root(turn, op);
    case Kind::kAllGather:
      return all_gather(turn, op);
    case Kind::kGather:
      return gather(turn, op);
    case Kind::kScatter:
      return scatter(turn, op);
    case Kind::kReduceScatter:
      return reduce_scatter(turn, op);
    case Kind::kAllToAll:
      return all_to_all(turn, op);
  }
  return false;
}

// The host may move virtual cores between one shared cache and two within seconds, and what is best for large data flips:
// between distant cores streaming stores are several times faster, between near ones they cost up to twice as much. So
// every few megabytes all ranks answer each other a few times and look at the clock, for two to six microseconds. The
// bytes counted are those that the headers agree on: all ranks measure at the same collective.
bool Lane::measure_distance(Turn& turn, size_t bytes) {
  constexpr size_t kSizeable = 16 * 1024;
  constexpr size_t kEvery = 16 * 1024 * 1024;
  constexpr int kBatches = 4, kRounds = 8;
  constexpr int64_t kFarNs = 110;  // one round: 40 to 60 within one cache, 170 and more across
  if (bytes < kSizeable || !patience_.own_core || nranks_ == 1 || !segment_.places().is_one_host()) return true;
  if (bytes_unmeasured_ < kEvery) {
    bytes_unmeasured_ += bytes;
    return true;
  }
  bytes_unmeasured_ = bytes;
  int64_t best = INT64_MAX;
  for (int batch = 0; batch < kBatches; ++batch) {
    if (!one_round(turn)) return false;  // all are here
    const int64_t start = pycomms::now_ns();
    for (int round = 0; round < kRounds; ++round) {
      if (!one_round(turn)) return false;
    }
    best = std::min(best, (pycomms::now_ns() - start) / kRounds);
  }
  streaming_ = best > kFarNs;
  return true;
}

bool Lane::one_round(Turn& turn) {
  const uint64_t round = ++probe_rounds_;
  segment_.mine().probe.value.store(round, std::memory_order_seq_cst);
  for (const int peer : others_) {
    segment_.ring(peer);
    const auto& theirs = segment_.block(peer).probe.value;
    if (!turn.waiter.until([&] { return theirs.load(std::memory_order_acquire) >= round; })) return false;
  }
  return true;
}

bool Lane::barrier(Turn& turn, const Collective& op) {
  post(begin(turn, op));
  return meet(turn);
}

// --- reductions

void Lane::read_factors() {
  for (int rank = 0; rank < nranks_; ++rank) factors_[static_cast<size_t>(rank)] = slot_of(rank).header.factor;
}

// out = reduction over all ranks' payloads, from element `offset` of each; `own` stands for this rank's payload.
void Lane::reduce_payloads(const Collective& op, size_t offset, size_t count, const std::byte* own) {
  for (int rank = 0; rank < nranks_; ++rank) {
    inputs_[static_cast<size_t>(rank)] = rank == rank_ ? own : payload_of(rank) + offset * op.element_bytes();
  }
  if (op.reduction == Reduction::kPreMulSum) read_factors();
  reduce(ReduceArgs{.out = op.output(),
                    .also = nullptr,
                    .inputs = inputs_.data(),
                    .ninputs = nranks_,
                    .count = count,
                    .type = op.type,
                    .reduction = op.reduction,
                    .factors = factors_.data(),
                    .stream_also = false});
}

bool Lane::all_reduce(Turn& turn, const Collective& op) {
  const size_t bytes = op.send.count * op.element_bytes();
  return bytes <= tuning_.small_symmetric ? small_all_reduce(turn, op, bytes) : large_all_reduce(turn, op);
}

bool Lane::small_all_reduce(Turn& turn, const Collective& op, size_t bytes) {
  HeaderSlot& slot = begin(turn, op);
  put(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (!meet(turn) || !measure_distance(turn, bytes)) return false;
  if (!came_with_all(turn, bytes)) return false;
  reduce_payloads(op, 0, op.send.count, op.input());
  return true;
}

bool Lane::large_all_reduce(Turn& turn, const Collective& op) {
  HeaderSlot& slot = begin(turn, op);
  const bool can_share = op.shared.fd >= 0 && segment_.places().is_one_host();
  if (can_share) std::memcpy(reserve(slot, sizeof(op.shared)), &op.shared, sizeof(op.shared));
  post(slot);
  if (!meet(turn) || !measure_distance(turn, op.send.count * op.element_bytes())) return false;
  if (op.reduction == Reduction::kPreMulSum) read_factors();
  bool all_shared = true;
  for (int rank = 0; rank < nranks_; ++rank) {
    all_shared &= slot_of(rank).header.payload != static_cast<uint8_t>(PayloadPlace::kNone);
  }
  if (!all_shared) return staged_all_reduce(turn, op);
  std::vector<std::byte*> buffers;
  bool all_mapped = false;
  if (!map_all(turn, op, buffers, all_mapped)) return false;
  return all_mapped ? direct_all_reduce(turn, op, buffers) : staged_all_reduce(turn, op);
}

// Maps everybody's buffer, and hears whether everybody could.
bool Lane::map_all(Turn& turn, const Collective& op, std::vector<std::byte*>& buffers, bool& all_mapped) {
  const size_t bytes = op.send.count * op.element_bytes();
  imports_.forget_unused(turn.sequence);
  bool mapped = true;
  for (int rank = 0; rank < nranks_; ++rank) {
    SharedLocation location;
    std::memcpy(&location, payload_of(rank), sizeof(location));
    const int pid = segment_.block(rank).pid.load(std::memory_order_relaxed);
    buffers.push_back(rank == rank_ ? op.output() : imports_.map(pid, location, bytes));
    mapped &= buffers.back() != nullptr;
  }
  HeaderSlot& slot = begin(turn, op);
  *reserve(slot, 1) = static_cast<std::byte>(mapped);
  post(slot);
  if (!meet(turn)) return false;
  all_mapped = true;
  for (int rank = 0; rank < nranks_; ++rank) all_mapped &= *payload_of(rank) != std::byte{0};
  return true;
}

// Every rank reduces its share of all buffers and writes the result into all of them.
bool Lane::direct_all_reduce(Turn& turn, const Collective& op, const std::vector<std::byte*>& buffers) {
  const size_t size = op.element_bytes();
  const Share mine = share_of(rank_, nranks_, op.send.count, size);
  constexpr size_t kDirectChunk = 64 * 1024;
  const size_t at_once = kDirectChunk / size;
  std::byte* const second = nranks_ == 2 ? buffers[static_cast<size_t>(others_.front())] : nullptr;
  for (size_t i = mine.begin; i < mine.begin + mine.count; i += at_once) {
    if (segment_.has_failed()) return false;  // the others may have left, and their buffers have other uses by now
    const size_t count = std::min(at_once, mine.begin + mine.count - i);
    for (size_t rank = 0; rank < buffers.size(); ++rank) inputs_[rank] = buffers[rank] + i * size;
    reduce({.out = op.output() + i * size,
            .also = second ? second + i * size : nullptr,
            .inputs = inputs_.data(),
            .ninputs = nranks_,
            .count = count,
            .type = op.type,
            .reduction = op.reduction,
            .factors = factors_.data()});
    if (second != nullptr) continue;
    for (const int peer : others_) {
      hostccl::copy(buffers[static_cast<size_t>(peer)] + i * size, op.output() + i * size, count * size);
    }
  }
  post(begin(turn, op));  // my share is done; the buffers are whole when everybody's is
  return meet(turn);
}

// Two ranks: each sends the other all it has and adds what it gets. As many bytes as with shares, and one hand-over less.
bool Lane::exchange_all_reduce(Turn& turn, const Collective& op, FlowStyle how) {
  const auto peer = static_cast<size_t>(others_.front());
  const size_t bytes = op.send.count * op.element_bytes();
  SendFlow out(segment_, pair_out_[peer], others_, op.input(), bytes, how);
  if (!segment_.is_here(others_.front())) out.hand_over();
  const ReduceFlow::Input ring{&pair_in_[peer], others_.front()}, own{nullptr, rank_};
  const ReduceFlow::Input inputs[] = {rank_ == 0 ? own : ring, rank_ == 0 ? ring : own};
  ReduceFlow sum(segment_, inputs, op.input(), op.output(), bytes, {nullptr, {}},
                 {.type = op.type, .reduction = op.reduction, .factors = factors_.data()}, how);
  out.lead(sum, tuning_.most_ahead);
  sum.follow(out);  // in place, a chunk must have been sent before it is overwritten
  Flow* const flows[] = {&out, &sum};
  return run_flows(segment_, turn.waiter, flows);
}

// Every rank owns a share: it gets the others' pieces of it, reduces, and gives the result to all.
bool Lane::staged_all_reduce(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const FlowStyle how = symmetric(op.send.count * size);
  if (nranks_ == 2) return exchange_all_reduce(turn, op, how);
  if (by_hosts_ && goes_by_hosts(segment_.places(), op)) return all_reduce_by_hosts(turn, op);
  auto piece = [&](int owner) { return share_of(owner, nranks_, op.send.count, size); };

  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  std::vector<ReduceFlow::Input> inputs;
  out.reserve(others_.size());
  in.reserve(others_.size());
  for (int peer = 0; peer < nranks_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    inputs.push_back({peer == rank_ ? nullptr : &pair_in_[p], peer});
    if (peer == rank_) continue;
    const Share share = piece(peer);
    send_to(out, peer, op.input() + share.begin * size, share.count * size, how);
    in.emplace_back(segment_, shared_in_[p], peer, op.output() + share.begin * size, share.count * size, how);
  }
  const Share mine = piece(rank_);
  ReduceFlow sum(segment_, inputs, op.input() + mine.begin * size, op.output() + mine.begin * size, mine.count * size,
                 {&shared_out_, others_}, {.type = op.type, .reduction = op.reduction, .factors = factors_.data()},
                 how);
  return run_pipeline(turn, out, &sum, in);
}

// As all_reduce, but the shares' results go to the root alone.
bool Lane::reduce_to_root(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const size_t bytes = op.send.count * size;
  const bool small = bytes <= tuning_.small_rooted;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && !root) put(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (!meet(turn) || !measure_distance(turn, bytes)) return false;
  if (small) {
    if (!root) return true;
    if (!came_with_all(turn, bytes)) return false;
    reduce_payloads(op, 0, op.send.count, op.input());
    return true;
  }
  if (op.reduction == Reduction::kPreMulSum) read_factors();
  const FlowStyle how = symmetric(bytes);
  const Share mine = share_of(rank_, nranks_, op.send.count, size);
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  std::vector<ReduceFlow::Input> inputs;
  out.reserve(others_.size());
  in.reserve(others_.size());
  for (int peer = 0; peer < nranks_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    inputs.push_back({peer == rank_ ? nullptr : &pair_in_[p], peer});
    if (peer == rank_) continue;
    const Share share = share_of(peer, nranks_, op.send.count, size);
    send_to(out, peer, op.input() + share.begin * size, share.count * size, how);
    if (root) {
      in.emplace_back(segment_, shared_in_[p], peer, op.output() + share.begin * size, share.count * size, how);
    } else if (peer != op.root) {
      shared_in_[p].skip_message(share.count * size);
    }
  }
  const ReduceFlow::Output results = root ? ReduceFlow::Output{nullptr, {}}
                                          : ReduceFlow::Output{&shared_out_, {&just_[static_cast<size_t>(op.root)], 1}};
  ReduceFlow sum(segment_, inputs, op.input() + mine.begin * size, root ? op.output() + mine.begin * size : nullptr,
                 mine.count * size, results, {.type = op.type, .reduction = op.reduction, .factors = factors_.data()},
                 how);
  return run_pipeline(turn, out, &sum, in);
}

bool Lane::reduce_scatter(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  size_t total = 0, before_mine = 0;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank == rank_) before_mine = total;
    total += op.send.elements(rank);
  }
  const bool small = total * size <= tuning_.small_symmetric;
  const size_t count = op.send.elements(rank_);
  const std::byte* const own = op.send.at(rank_, size);
  HeaderSlot& slot = begin(turn, op);
  if (small) {
    std::byte* at = reserve(slot, total * size);
    for (int rank = 0; rank < nranks_; ++rank) {
      const size_t bytes = op.send.elements(rank) * size;
      if (bytes != 0) put(at, op.send.at(rank, size), bytes);
      at += bytes;
    }
  }
  post(slot);
  if (!meet(turn) || !measure_distance(turn, total * size)) return false;
  if (small) {
    if (!came_with_all(turn, total * size)) return false;
    reduce_payloads(op, before_mine, count, own);
    return true;
  }
  if (op.reduction == Reduction::kPreMulSum) read_factors();
  const FlowStyle how = symmetric(total * size);
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  std::vector<ReduceFlow::Input> inputs;
  out.reserve(others_.size());
  for (int peer = 0; peer < nranks_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    inputs.push_back({peer == rank_ ? nullptr : &pair_in_[p], peer});
    if (peer == rank_) continue;
    send_to(out, peer, op.send.at(peer, size), op.send.elements(peer) * size, how);
  }
  ReduceFlow sum(segment_, inputs, own, op.output(), count * size, {nullptr, {}},
                 {.type = op.type, .reduction = op.reduction, .factors = factors_.data()}, how);
  return run_pipeline(turn, out, &sum, in);
}

SendFlow& Lane::send_to(std::vector<SendFlow>& out, int peer, const std::byte* from, size_t bytes, FlowStyle how) {
  const auto p = static_cast<size_t>(peer);
  SendFlow& flow = out.emplace_back(segment_, pair_out_[p], std::span(&just_[p], 1), from, bytes, how);
  if (!segment_.is_here(peer)) flow.hand_over();
  return flow;
}

bool Lane::run_pipeline(Turn& turn, std::vector<SendFlow>& out, Flow* middle, std::vector<RecvFlow>& in) {
  std::vector<Flow*> flows;
  flows.reserve(out.size() + in.size() + 1);
  for (SendFlow& flow : out) flows.push_back(&flow);
  if (middle != nullptr) flows.push_back(middle);
  for (RecvFlow& flow : in) flows.push_back(&flow);
  return run_flows(segment_, turn.waiter, flows);
}

}  // namespace hostccl
