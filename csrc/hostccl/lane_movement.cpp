// Lane, the collectives that only move data: which travels with the headers, which through rings. Every function runs one
// collective to its end on the calling thread; false: the communicator has failed.

#include <algorithm>
#include <string>

#include "hostccl/lane.h"
#include "hostccl/turn.h"

namespace hostccl {
namespace {

void copy_unless_same(void* to, const void* from, size_t bytes) {
  if (to == from || bytes == 0) return;
  if (bytes >= kTooLargeForCache) {
    hostccl::copy_streaming(to, from, bytes);
  } else {
    hostccl::copy(to, from, bytes);
  }
}

FlowStyle for_movement(FlowStyle style, size_t bytes) {
  style.streaming_out = bytes >= kTooLargeForCache;
  return style;
}

}  // namespace

bool Lane::broadcast(Turn& turn, const Collective& op) {
  const size_t bytes = op.send.count * op.element_bytes();
  const bool small = bytes <= tuning_.small_rooted;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && root) put(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (root) copy_unless_same(op.output(), op.input(), bytes);
  if (!meet(turn) || !measure_distance(turn, bytes)) return false;
  if (small) {
    if (root) return true;
    if (!came_with(turn, [&](int peer) { return peer == op.root ? bytes : 0; })) return false;
    hostccl::copy(op.output(), payload_of(op.root), bytes);
    return true;
  }
  SendFlow out(segment_, shared_out_, others_, op.input(), root ? bytes : 0, rooted(bytes));
  RecvFlow in(segment_, shared_in_[static_cast<size_t>(op.root)], op.root, op.output(), root ? 0 : bytes,
              for_movement(rooted(bytes), bytes));
  Flow* const flow = root ? static_cast<Flow*>(&out) : &in;
  return run_flows(segment_, turn.waiter, {&flow, 1});
}

bool Lane::all_gather(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  size_t largest = 0;
  for (int rank = 0; rank < nranks_; ++rank) largest = std::max(largest, op.recv.elements(rank) * size);
  const bool small = largest <= tuning_.small_symmetric;
  const size_t mine = op.recv.elements(rank_) * size;
  HeaderSlot& slot = begin(turn, op);
  if (small) put(reserve(slot, mine), op.input(), mine);
  post(slot);
  std::byte* const own = op.recv.at(rank_, size);
  if (small || nranks_ == 1) copy_unless_same(own, op.input(), mine);
  if (!meet(turn) || !measure_distance(turn, largest)) return false;
  if (small || nranks_ == 1) {
    if (!came_with(turn, [&](int peer) { return op.recv.elements(peer) * size; })) return false;
    for (const int peer : others_)
      hostccl::copy(op.recv.at(peer, size), payload_of(peer), op.recv.elements(peer) * size);
    return true;
  }
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  in.reserve(others_.size());
  out.emplace_back(segment_, shared_out_, others_, op.input(), mine, for_movement(symmetric(largest), largest));
  if (own != op.input()) out.back().keep_copy(own);
  for (const int peer : others_) {
    in.emplace_back(segment_, shared_in_[static_cast<size_t>(peer)], peer, op.recv.at(peer, size),
                    op.recv.elements(peer) * size, for_movement(symmetric(largest), largest));
  }
  return run_pipeline(turn, out, nullptr, in);
}

bool Lane::gather(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const size_t bytes = op.send.count * size;
  const bool small = bytes <= tuning_.small_rooted;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && !root) put(reserve(slot, bytes), op.input(), bytes);
  post(slot);
  if (root) copy_unless_same(op.recv.at(rank_, size), op.input(), bytes);
  if (!meet(turn) || !measure_distance(turn, bytes)) return false;
  if (small) {
    if (!root) return true;
    if (!came_with_all(turn, bytes)) return false;
    for (const int peer : others_) hostccl::copy(op.recv.at(peer, size), payload_of(peer), bytes);
    return true;
  }
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  if (!root) send_to(out, op.root, op.input(), bytes, rooted(bytes));
  in.reserve(others_.size());
  for (const int peer : others_) {
    if (root)
      in.emplace_back(segment_, pair_in_[static_cast<size_t>(peer)], peer, op.recv.at(peer, size), bytes,
                      for_movement(rooted(bytes), bytes));
  }
  return run_pipeline(turn, out, nullptr, in);
}

bool Lane::scatter(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const size_t bytes = op.recv.count * size;
  const bool small = bytes * static_cast<size_t>(nranks_) <= tuning_.small_rooted;
  const bool root = op.root == rank_;
  HeaderSlot& slot = begin(turn, op);
  if (small && root) {
    std::byte* const at = reserve(slot, bytes * static_cast<size_t>(nranks_));
    for (int rank = 0; rank < nranks_; ++rank) {
      put(at + static_cast<size_t>(rank) * bytes, op.send.at(rank, size), bytes);
    }
  }
  post(slot);
  if (root) copy_unless_same(op.output(), op.send.at(rank_, size), bytes);
  if (!meet(turn) || !measure_distance(turn, bytes)) return false;
  if (small) {
    if (root) return true;
    const size_t all = bytes * static_cast<size_t>(nranks_);
    if (!came_with(turn, [&](int peer) { return peer == op.root ? all : 0; })) return false;
    hostccl::copy(op.output(), payload_of(op.root) + static_cast<size_t>(rank_) * bytes, bytes);
    return true;
  }
  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  out.reserve(others_.size());
  for (const int peer : others_) {
    if (root) send_to(out, peer, op.send.at(peer, size), bytes, rooted(bytes));
  }
  const auto r = static_cast<size_t>(op.root);
  if (!root) in.emplace_back(segment_, pair_in_[r], op.root, op.output(), bytes, for_movement(rooted(bytes), bytes));
  return run_pipeline(turn, out, nullptr, in);
}

// The payload begins with a table: how many elements for each rank, whether the data is in the rings instead, and how many
// elements are expected from each rank.
bool Lane::all_to_all(Turn& turn, const Collective& op) {
  const size_t size = op.element_bytes();
  const auto n = static_cast<size_t>(nranks_);
  size_t total = 0;
  for (int rank = 0; rank < nranks_; ++rank) total += op.send.elements(rank) * size;
  const bool small = total <= tuning_.small_symmetric;
  const size_t table_bytes = pad_up((2 * n + 1) * sizeof(uint64_t));  // the data after it is aligned

  HeaderSlot& slot = begin(turn, op);
  std::byte* at = reserve(slot, table_bytes + (small ? total : 0));
  auto* const table = reinterpret_cast<uint64_t*>(at);
  at += table_bytes;
  table[n] = small ? 0 : 1;
  for (int rank = 0; rank < nranks_; ++rank) {
    const size_t bytes = op.send.elements(rank) * size;
    table[rank] = op.send.elements(rank);
    table[n + 1 + static_cast<size_t>(rank)] = op.recv.elements(rank);
    if (!small || bytes == 0) continue;
    put(at, op.send.at(rank, size), bytes);
    at += bytes;
  }
  post(slot);
  if (op.recv.elements(rank_) == op.send.elements(rank_)) {
    copy_unless_same(op.recv.at(rank_, size), op.send.at(rank_, size), op.send.elements(rank_) * size);
  }
  if (!meet(turn) || !came_with_all(turn, table_bytes) || !check_pair_counts(turn, op)) return false;

  std::vector<SendFlow> out;
  std::vector<RecvFlow> in;
  out.reserve(others_.size());
  in.reserve(others_.size());
  for (const int peer : others_) {
    const auto p = static_cast<size_t>(peer);
    const size_t expected = op.recv.elements(peer) * size;
    const auto* const theirs = reinterpret_cast<const uint64_t*>(payload_of(peer));
    if (!small) send_to(out, peer, op.send.at(peer, size), op.send.elements(peer) * size, symmetric(total));
    if (theirs[n] != 0) {
      in.emplace_back(segment_, pair_in_[p], peer, op.recv.at(peer, size), expected,
                      for_movement(symmetric(expected * n), expected));
    } else if (expected != 0) {
      size_t before = 0;
      const size_t limit = payload_bytes(peer) - table_bytes;
      for (int rank = 0; rank < rank_; ++rank) before += std::min<size_t>(theirs[rank], limit + 1) * size;
      if (before + expected > limit) return report_nonsense(turn, peer), false;
      hostccl::copy(op.recv.at(peer, size), payload_of(peer) + table_bytes + before, expected);
    }
  }
  return run_pipeline(turn, out, nullptr, in);
}

// Both directions, so that both sides of a pair that disagrees see it.
bool Lane::check_pair_counts(Turn& turn, const Collective& op) {
  auto differ = [&](int from, int to, size_t sent, size_t expected) {
    if (sent == expected) return false;
    mismatch(turn, from, to,
             "all_to_all: rank " + std::to_string(from) + " sends " + std::to_string(sent) + " elements to rank " +
                 std::to_string(to) + ", which expects " + std::to_string(expected));
    return true;
  };
  if (differ(rank_, rank_, op.send.elements(rank_), op.recv.elements(rank_))) return false;
  for (const int peer : others_) {
    const auto* const theirs = reinterpret_cast<const uint64_t*>(payload_of(peer));
    if (differ(peer, rank_, theirs[rank_], op.recv.elements(peer))) return false;
    if (differ(rank_, peer, op.send.elements(peer), theirs[nranks_ + 1 + rank_])) return false;
  }
  return true;
}

}  // namespace hostccl
