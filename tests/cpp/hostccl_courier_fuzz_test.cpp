// Three ranks on three hosts run collectives and exchange messages, and one of them says things beside that no courier says, at
// positions that fit or nearly fit. The communicator may end by it; nothing may crash or hang, every operation ends, and what the
// two others have sent each other is right as long as it is said to have come.
// Usage: hostccl_courier_fuzz_test [SECONDS [SEED]]; the seed is printed.

#include <map>

#include "courier_world.h"
#include "fuzz.h"
#include "hostccl/failures.h"

using namespace courier_test;
using namespace fuzz;
using net_test::pattern;

namespace {

constexpr int kRanks = 3, kHostile = 2;
constexpr int64_t kOperation = 2 * pycomms::kSecond;  // may be withheld by the hostile one
constexpr int64_t kRound = 30 * pycomms::kSecond;

struct Tally {
  uint64_t rounds = 0, said = 0, ended = 0;
  std::atomic<uint64_t> operations{0};
  std::map<std::string, uint64_t> reasons;
};

// --- what all ranks do, in the same order

Result run_collective(Member& member, uint64_t number) {
  Random random(number);
  const size_t count = one_in(random, 4) ? 100'000 : 1 + up_to(random, 3000);
  std::vector<float> in(count * kRanks, 1), out(count * kRanks);
  constexpr Kind kinds[] = {Kind::kBarrier,   Kind::kBroadcast, Kind::kAllReduce,    Kind::kReduce,
                            Kind::kAllGather, Kind::kAllToAll,  Kind::kReduceScatter};
  Collective op;
  op.kind = kinds[up_to(random, std::size(kinds) - 1)];
  op.type = nccl_abi::kFloat32;
  op.root = static_cast<int>(up_to(random, kRanks - 1));
  op.send = {.block = in.data(), .count = count};
  op.recv = {.block = out.data(), .count = count};
  return member.lane->run(op, kOperation, false);
}

// With both others. What the other well-meaning one has sent must be right.
void exchange(Member& member, uint64_t number) {
  Random random(number);
  const size_t bytes = one_in(random, 4) ? 100'000 + up_to(random, 300'000) : up_to(random, 20'000);
  const auto seed_of = [number](int rank) { return number * kRanks + static_cast<uint64_t>(rank); };
  std::vector<std::byte> data = pattern(bytes, seed_of(member.rank()));
  std::vector<Pending> sent(kRanks), received(kRanks);
  std::vector<std::vector<std::byte>> got(kRanks, std::vector<std::byte>(bytes));
  for (int peer = 0; peer < kRanks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == member.rank()) continue;
    member.p2p->post(received[p].request(false, got[p], peer));
    member.p2p->post(sent[p].request(true, data, peer));
  }
  const auto deadline = Deadline::after(kOperation);
  for (int peer = 0; peer < kRanks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == member.rank()) continue;
    while (!sent[p].done || !received[p].done) {
      if (deadline.passed()) member.segment->fail(make_failure(FailureKind::kTimeout, member.rank(), "withheld"));
      member.courier->progress();
      member.p2p->progress();
      std::this_thread::yield();
    }
    const bool mean_well = peer != kHostile && member.rank() != kHostile;
    if (mean_well && received[p].result == nccl_abi::kSuccess && got[p] != pattern(bytes, seed_of(peer))) {
      die("rank " + std::to_string(member.rank()) + " got wrong bytes from rank " + std::to_string(peer));
    }
  }
}

void work(Member& member, uint64_t seed, Tally& tally) {
  for (uint64_t i = 0; i < 40 && !member.segment->has_failed(); ++i) {
    if (i % 3 == 2) {
      exchange(member, seed + i);
    } else {
      static_cast<void>(run_collective(member, seed + i));
    }
    tally.operations.fetch_add(1, std::memory_order_relaxed);
  }
}

// --- what the hostile one says beside

class Mouth {
 public:
  Mouth(Member& member, Random& random) : member_(member), random_(random), memory_(pattern(3 << 20, random())) {}

  void say_something(int peer) {
    const auto kind = static_cast<CourierKind>(up_to(random_, one_in(random_, 20) ? net::kLastKind : 10));
    Bytes payload = payload_of(kind, peer);
    for (size_t i = up_to(random_, 3); i > 0; --i) mutate(payload, random_);
    net::Message message;
    message.kind = static_cast<uint8_t>(kind);
    message.id = near(position_of(kind, peer));
    message.aux = one_in(random_, 2) ? 64 * up_to(random_, 40'000) : near(0);
    auto lane = static_cast<net::Lane>(up_to(random_, 2));
    if (payload.size() > net::kUrgentBytes) lane = net::Lane::kBulk;
    if (payload.size() > net::Link::kCopyBytes) payload.resize(net::Link::kCopyBytes);
    static_cast<void>(member_.mesh->link_to(peer).send(lane, message, {{}, payload}));  // it may have ended already
  }

 private:
  uint64_t near(uint64_t position) {
    switch (up_to(random_, 7)) {
      case 0:
        return position + 1;
      case 1:
        return position + 64 * up_to(random_, 1000);
      case 2:
        return random_();
      case 3:
        return ~uint64_t{0} - up_to(random_, 128);
      default:
        return position;
    }
  }

  // Where the next of its kind would be.
  uint64_t position_of(CourierKind kind, int peer) {
    const Layout& layout = member_.segment->layout();
    std::byte* const base = member_.segment->base();
    PairControl& pair = layout.pair(base, kHostile, peer);
    switch (kind) {
      case CourierKind::kFlat:
      case CourierKind::kHeader:
        return member_.lane->sequence() + 1;
      case CourierKind::kShared:
        return layout.shared_head(base, kHostile).value.load();
      case CourierKind::kEager:
        return pair.eager_head.value.load();
      case CourierKind::kStaged:
        return pair.staged_head.value.load();
      case CourierKind::kBulk:
        return pair.bulk_head.value.load();
      case CourierKind::kEnvelopes:
        return up_to(random_, 64);
      default:
        return 0;
    }
  }

  Bytes payload_of(CourierKind kind, int peer) {
    const auto copy = [](const auto& wire) {
      const auto bytes = std::as_bytes(std::span(&wire, 1));
      return Bytes(bytes.begin(), bytes.end());
    };
    const Layout& layout = member_.segment->layout();
    PairControl& mine = layout.pair(member_.segment->base(), peer, kHostile);
    switch (kind) {
      case CourierKind::kState:
        return copy(StateWire{static_cast<uint32_t>(up_to(random_, 3)), 1, 1});
      case CourierKind::kFault: {
        Failure failure = make_failure(FailureKind::kAborted, kHostile, "hostile");
        return copy(failure);
      }
      case CourierKind::kTails:
        return copy(TailsWire{mine.staged_tail.value.load(), mine.eager_tail.value.load(), mine.bulk_tail.value.load(),
                              mine.envelopes_taken.value.load(),
                              layout.shared_tail(member_.segment->base(), peer, kHostile).value.load()});
      case CourierKind::kHeader: {
        HeaderSlot slot{};
        Collective op;
        op.kind = static_cast<Kind>(up_to(random_, 8));
        op.type = nccl_abi::kFloat32;
        slot.header = make_header(op, kRanks);
        slot.header.payload = static_cast<uint8_t>(up_to(random_, 3));
        slot.flat_offset = static_cast<uint32_t>(64 * up_to(random_, 40'000));
        slot.flat_bytes = static_cast<uint32_t>(up_to(random_, 4096));
        const Bytes whole = copy(slot);
        return {whole.begin() + sizeof(uint64_t), whole.end()};
      }
      case CourierKind::kEnvelopes: {
        Bytes all;
        for (size_t i = up_to(random_, 3); i > 0; --i) {
          Envelope envelope{};
          envelope.kind = static_cast<EnvelopeKind>(up_to(random_, 4));
          envelope.type = nccl_abi::kUint8;
          envelope.bytes = one_in(random_, 3) ? random_() : up_to(random_, 300'000);
          envelope.id = up_to(random_, 100);
          const Bytes one = copy(envelope);
          all.insert(all.end(), one.begin(), one.end());
        }
        return all;
      }
      default: {
        const size_t bytes = one_in(random_, 8) ? up_to(random_, 60'000) : 64 * up_to(random_, 16);
        return {memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(bytes)};
      }
    }
  }

  Member& member_;
  Random& random_;
  const Bytes memory_;
};

void run_round(uint64_t seed, Tally& tally) {
  Random random(seed);
  World world({0, 1, 2});
  if (!world.is_complete()) die("the ranks have not met");
  std::vector<std::thread> threads;
  std::atomic<int> working{kRanks};
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      work(world[rank], seed, tally);
      --working;
    });
  }
  Mouth mouth(world[kHostile], random);
  const auto deadline = Deadline::after(kRound);
  for (size_t left = 1 + up_to(random, 10); working > 0; std::this_thread::yield()) {
    if (deadline.passed()) die("an operation does not end");
    if (left == 0 || !one_in(random, 1 + up_to(random, 200))) continue;
    mouth.say_something(static_cast<int>(up_to(random, 1)));
    --left;
    ++tally.said;
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  const int64_t start = pycomms::now_ns();
  for (const auto& member : world.members()) threads.emplace_back([&member] { member->close(5 * pycomms::kSecond); });
  for (std::thread& thread : threads) thread.join();
  if (pycomms::now_ns() - start > kRound / 2) die("closing takes too long");
  ++tally.rounds;
  if (!world[0].segment->has_failed() && !world[1].segment->has_failed()) return;
  ++tally.ended;
  const Failure failure = world[world[0].segment->has_failed() ? 0 : 1].segment->failure();
  if (failure.text[0] == '\0') die("an end without a reason");
  ++tally.reasons[std::to_string(static_cast<int>(failure.kind))];
}

}  // namespace

int main(int argc, char** argv) {
  const auto [seconds, seed] = arguments(argc, argv);
  try {
    Tally tally;
    const auto deadline = Deadline::after(seconds * pycomms::kSecond);
    // Few rounds may have passed on a slow machine, and not every one ends a communicator.
    const auto latest = Deadline::after(seconds * pycomms::kSecond + kRound);
    const auto is_enough = [&] { return deadline.passed() && (tally.ended > 0 || latest.passed()); };
    for (uint64_t round = 0; !is_enough(); ++round) run_round(seed + 1000 * round, tally);
    std::printf("rounds %llu, operations %llu, said %llu, ended %llu; by kind of failure:",
                static_cast<unsigned long long>(tally.rounds), static_cast<unsigned long long>(tally.operations),
                static_cast<unsigned long long>(tally.said), static_cast<unsigned long long>(tally.ended));
    for (const auto& [kind, count] : tally.reasons)
      std::printf(" %s: %llu", kind.c_str(), static_cast<unsigned long long>(count));
    std::printf("\n");
    if (tally.ended == 0 || tally.operations == 0) die("nothing happened");
  } catch (const check::Failure& failure) {
    die(failure.text);
  }
  return 0;
}
