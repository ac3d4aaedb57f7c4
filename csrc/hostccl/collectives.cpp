// The collectives themselves: which data travels with the headers, which through rings, and what is done with it.
// Part of Lane; every function runs one collective to its end on the calling thread. False: the communicator has failed.

#include <algorithm>
#include <cstring>
#include <string>

#include "hostccl/lane.h"
#include "hostccl/turn.h"

namespace hostccl {
namespace {

// Where a rank's share of `count` elements begins and how many it has; shares start on multiples of kPad bytes.
struct Share {
  size_t begin;
  size_t count;
};
Share share_of(int rank, int nranks, size_t count, size_t element_size) {
  const size_t grain = kPad / element_size;
  const auto n = static_cast<size_t>(nranks);
  const size_t each = ((count + n - 1) / n + grain - 1) / grain * grain;
  const size_t begin = std::min(count, each * static_cast<size_t>(rank));
  return {begin, std::min(each, count - begin)};
}

void copy_unless_same(void* to, const void* from, size_t bytes) {
  if (to != from && bytes != 0) hostccl::copy(to, from, bytes);
}

}  // namespace

bool Lane::dispatch(Turn& turn, const Collective& op) {
  switch (op.kind) {
    case Kind::kBarrier:
    case Kind::kSplit: return barrier(turn, op);
    case Kind::kBroadcast: return broadcast(turn, op);
    case Kind::kAllReduce: return all_reduce(turn, op);
    case Kind::kReduce: return reduce_to_root(turn, op);
    case Kind::kAllGather: return all_gather(turn, op);
    case Kind::kGather: return gather(turn, op);
    case Kind::kScatter: return scatter(turn, op);
    case Kind::kReduceScatter: return reduce_scatter(turn, op);
    case Kind::kAllToAll: return all_to_all(turn, op);
  }
  return false;
}

FlowStyle Lane::style(size_t bytes) const {
  return FlowStyle{bytes < tuning_.medium_limit ? tuning_.small_chunk : tuning_.large_chunk, false};
}

bool Lane::barrier(Turn& turn, const Collective& op) {
  post(begin(turn, op));
  return meet(turn);
}

bool Lane::broadcast(Turn& turn, const Collective& op) {
  const size_t bytes = op.send.count * op.element_bytes();
  const bool small = bytes <= tuning_.small_limit;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && root) hostccl::copy(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (root) copy_unless_same(op.output(), op.input(), bytes);
  if (!meet(turn)) return false;
  if (small) {
    if (!root) hostccl::copy(op.output(), payload_of(op.root), bytes);
    return true;
  }
  SendFlow out(segment_, shared_out_, others_, op.input(), root ? bytes : 0, style(bytes));
  RecvFlow in(segment_, shared_in_[static_cast<size_t>(op.root)], op.root, op.output(), root ? 0 : bytes, style(bytes));
  Flow* const flow = root ? static_cast<Flow*>(&out) : &in;
  return run_flows(turn.waiter, {&flow, 1});
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
  return bytes <= tuning_.small_limit ? small_all_reduce(turn, op, bytes) : large_all_reduce(turn, op);
}

bool Lane::small_all_reduce(Turn& turn, const Collective& op, size_t bytes) {
  HeaderSlot& slot = begin(turn, op);
  hostccl::copy(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (!meet(turn)) return false;
  reduce_payloads(op, 0, op.send.count, op.input());
  return true;
}

// Every rank owns a share: it gets the others' pieces of it, reduces, and gives the result to all.
bool Lane::large_all_reduce(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const FlowStyle how = style(op.send.count * size);
  post(begin(turn, op));
  if (!meet(turn)) return false;
  if (op.reduction == Reduction::kPreMulSum) read_factors();
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
    out.emplace_back(segment_, pair_out_[p], std::span(&just_[p], 1), op.input() + share.begin * size, share.count * size,
                     how);
    in.emplace_back(segment_, shared_in_[p], peer, op.output() + share.begin * size, share.count * size, how);
  }
  const Share mine = piece(rank_);
  ReduceFlow sum(segment_, inputs, op.input() + mine.begin * size, op.output() + mine.begin * size, mine.count * size,
                 {&shared_out_, others_},
                 {.type = op.type, .reduction = op.reduction, .factors = factors_.data()}, how);
  return run_pipeline(turn, out, &sum, in);
}

// As all_reduce, but the shares' results go to the root alone.
bool Lane::reduce_to_root(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const size_t bytes = op.send.count * size;
  const bool small = bytes <= tuning_.small_limit;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && !root) hostccl::copy(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (!meet(turn)) return false;
  if (small) {
    if (root) reduce_payloads(op, 0, op.send.count, op.input());
    return true;
  }
  if (op.reduction == Reduction::kPreMulSum) read_factors();
  const FlowStyle how = style(bytes);
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
    out.emplace_back(segment_, pair_out_[p], std::span(&just_[p], 1), op.input() + share.begin * size, share.count * size,
                     how);
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
  const bool small = total * size <= tuning_.small_limit;
  const size_t count = op.send.elements(rank_);
  const std::byte* const own = op.send.at(rank_, size);
  HeaderSlot& slot = begin(turn, op);
  if (small) {
    std::byte* at = reserve(slot, total * size);
    for (int rank = 0; rank < nranks_; ++rank) {
      const size_t bytes = op.send.elements(rank) * size;
      if (bytes != 0) hostccl::copy(at, op.send.at(rank, size), bytes);
      at += bytes;
    }
  }
  post(slot);
  if (!meet(turn)) return false;
  if (small) {
    reduce_payloads(op, before_mine, count, own);
    return true;
  }
  if (op.reduction == Reduction::kPreMulSum) read_factors();
  const FlowStyle how = style(total * size);
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  std::vector<ReduceFlow::Input> inputs;
  out.reserve(others_.size());
  for (int peer = 0; peer < nranks_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    inputs.push_back({peer == rank_ ? nullptr : &pair_in_[p], peer});
    if (peer == rank_) continue;
    out.emplace_back(segment_, pair_out_[p], std::span(&just_[p], 1), op.send.at(peer, size),
                     op.send.elements(peer) * size, how);
  }
  ReduceFlow sum(segment_, inputs, own, op.output(), count * size, {nullptr, {}},
                 {.type = op.type, .reduction = op.reduction, .factors = factors_.data()}, how);
  return run_pipeline(turn, out, &sum, in);
}

// --- pure data movement

bool Lane::all_gather(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  size_t largest = 0;
  for (int rank = 0; rank < nranks_; ++rank) largest = std::max(largest, op.recv.elements(rank) * size);
  const bool small = largest <= tuning_.small_limit;
  const size_t mine = op.recv.elements(rank_) * size;
  HeaderSlot& slot = begin(turn, op);
  if (small) hostccl::copy(reserve(slot, mine), op.input(), mine);
  post(slot);
  copy_unless_same(op.recv.at(rank_, size), op.input(), mine);
  if (!meet(turn)) return false;
  if (small) {
    for (const int peer : others_) hostccl::copy(op.recv.at(peer, size), payload_of(peer), op.recv.elements(peer) * size);
    return true;
  }
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  in.reserve(others_.size());
  out.emplace_back(segment_, shared_out_, others_, op.input(), mine, style(largest));
  for (const int peer : others_) {
    in.emplace_back(segment_, shared_in_[static_cast<size_t>(peer)], peer, op.recv.at(peer, size),
                    op.recv.elements(peer) * size, style(largest));
  }
  return run_pipeline(turn, out, nullptr, in);
}

bool Lane::gather(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const size_t bytes = op.send.count * size;
  const bool small = bytes <= tuning_.small_limit;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && !root) hostccl::copy(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (root) copy_unless_same(op.recv.at(rank_, size), op.input(), bytes);
  if (!meet(turn)) return false;
  if (small) {
    if (!root) return true;
    for (const int peer : others_) hostccl::copy(op.recv.at(peer, size), payload_of(peer), bytes);
    return true;
  }
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  const auto r = static_cast<size_t>(op.root);
  if (!root) out.emplace_back(segment_, pair_out_[r], std::span(&just_[r], 1), op.input(), bytes, style(bytes));
  in.reserve(others_.size());
  for (const int peer : others_) {
    if (root) in.emplace_back(segment_, pair_in_[static_cast<size_t>(peer)], peer, op.recv.at(peer, size), bytes, style(bytes));
  }
  return run_pipeline(turn, out, nullptr, in);
}

bool Lane::scatter(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const size_t bytes = op.recv.count * size;
  const bool small = bytes * static_cast<size_t>(nranks_) <= tuning_.small_limit;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && root) {
    std::byte* const at = reserve(slot, bytes * static_cast<size_t>(nranks_));
    for (int rank = 0; rank < nranks_; ++rank) {
      hostccl::copy(at + static_cast<size_t>(rank) * bytes, op.send.at(rank, size), bytes);
    }
  }
  post(slot);
  if (root) copy_unless_same(op.output(), op.send.at(rank_, size), bytes);
  if (!meet(turn)) return false;
  if (small) {
    if (!root) hostccl::copy(op.output(), payload_of(op.root) + static_cast<size_t>(rank_) * bytes, bytes);
    return true;
  }
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  out.reserve(others_.size());
  for (const int peer : others_) {
    const auto p = static_cast<size_t>(peer);
    if (root) out.emplace_back(segment_, pair_out_[p], std::span(&just_[p], 1), op.send.at(peer, size), bytes, style(bytes));
  }
  const auto r = static_cast<size_t>(op.root);
  if (!root) in.emplace_back(segment_, pair_in_[r], op.root, op.output(), bytes, style(bytes));
  return run_pipeline(turn, out, nullptr, in);
}

// The payload begins with a table: how many elements for each rank, and whether the data is in the rings instead.
bool Lane::all_to_all(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const auto n = static_cast<size_t>(nranks_);
  size_t total = 0;
  for (int rank = 0; rank < nranks_; ++rank) total += op.send.elements(rank) * size;
  const bool small = total <= tuning_.small_limit;
  const size_t table_bytes = (n + 1) * sizeof(uint64_t);

  HeaderSlot& slot = begin(turn, op);
  std::byte* at = reserve(slot, table_bytes + (small ? total : 0));
  auto* const table = reinterpret_cast<uint64_t*>(at);
  at += table_bytes;
  table[n] = small ? 0 : 1;
  for (int rank = 0; rank < nranks_; ++rank) {
    const size_t bytes = op.send.elements(rank) * size;
    table[rank] = op.send.elements(rank);
    if (!small || bytes == 0) continue;
    hostccl::copy(at, op.send.at(rank, size), bytes);
    at += bytes;
  }
  post(slot);
  if (op.recv.elements(rank_) == op.send.elements(rank_)) {
    copy_unless_same(op.recv.at(rank_, size), op.send.at(rank_, size), op.send.elements(rank_) * size);
  }
  if (!meet(turn) || !check_pair_counts(turn, op)) return false;

  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  out.reserve(others_.size());
  in.reserve(others_.size());
  for (const int peer : others_) {
    const auto p = static_cast<size_t>(peer);
    const size_t expected = op.recv.elements(peer) * size;
    const auto* const theirs = reinterpret_cast<const uint64_t*>(payload_of(peer));
    if (!small) {
      out.emplace_back(segment_, pair_out_[p], std::span(&just_[p], 1), op.send.at(peer, size),
                       op.send.elements(peer) * size, style(total));
    }
    if (theirs[n] != 0) {
      in.emplace_back(segment_, pair_in_[p], peer, op.recv.at(peer, size), expected, style(expected * n));
    } else if (expected != 0) {
      size_t before = 0;
      for (int rank = 0; rank < rank_; ++rank) before += theirs[rank] * size;
      hostccl::copy(op.recv.at(peer, size), reinterpret_cast<const std::byte*>(theirs + n + 1) + before, expected);
    }
  }
  return run_pipeline(turn, out, nullptr, in);
}

bool Lane::check_pair_counts(Turn& turn, const Collective& op) {
  for (int peer = 0; peer < nranks_; ++peer) {
    const size_t sent = peer == rank_ ? op.send.elements(rank_)
                                      : reinterpret_cast<const uint64_t*>(payload_of(peer))[rank_];
    const size_t expected = op.recv.elements(peer);
    if (sent == expected) continue;
    mismatch(turn, peer, rank_,
             "all_to_all: rank " + std::to_string(peer) + " sends " + std::to_string(sent) + " elements to rank " +
                 std::to_string(rank_) + ", which expects " + std::to_string(expected));
    return false;
  }
  return true;
}

bool Lane::run_pipeline(Turn& turn, std::vector<SendFlow>& out, Flow* middle, std::vector<RecvFlow>& in) {
  std::vector<Flow*> flows;
  flows.reserve(out.size() + in.size() + 1);
  for (SendFlow& flow : out) flows.push_back(&flow);
  if (middle != nullptr) flows.push_back(middle);
  for (RecvFlow& flow : in) flows.push_back(&flow);
  return run_flows(turn.waiter, flows);
}

}  // namespace hostccl
