// Windows over TCP among members that say nonsense: requests that are wrong, cut off or not followed by what they promise, sent to a
// service at which friends meanwhile work and verify; and answers that are wrong, to an origin. Nothing may crash or hang, no byte
// may change that was not asked for, and the friends must not notice.
// Usage: hostccl_windows_fuzz_test [SECONDS [SEED]]; the seed is printed.

#include <cstring>

#include "fuzz.h"
#include "windows_world.h"

using namespace windows_test;
using namespace fuzz;

namespace {

constexpr int kFriends = 2, kHostile = 30, kRanks = 1 + kFriends + kHostile;
constexpr uint32_t kHostileWindow = 12;
// Far from the hostile one's: no mutation makes one of these of it.
constexpr uint32_t kFriendsWindows[kFriends] = {0x5a17c0de, 0xb3f019a2};
constexpr size_t kBytes = 200'000, kGuard = 4096;
constexpr auto kSentinel = std::byte{0xa5};

struct Tally {
  std::atomic<uint64_t> works{0};
  uint64_t said = 0, rejected = 0, calls = 0, errors = 0;
};

template <typename Wire>
void append(Bytes& to, const Wire& what) {
  const auto bytes = std::as_bytes(std::span(&what, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// --- a service, and those who ask it

void work_in_friendship(World& world, int rank, uint64_t seed, const std::atomic<bool>& stop, Tally& tally) {
  Random random(seed);
  WindowOrigin& origin = *world[rank].origin;
  const uint32_t window = kFriendsWindows[rank - 1];
  const auto expect = [](const Status& status) {
    if (!status.is_ok()) die("a friend was hurt: " + status.message());
  };
  for (int64_t i = 0; !stop; ++i) {
    const size_t bytes = one_in(random, 3) ? up_to(random, kBytes - 8) : up_to(random, 2000);
    const WindowPiece piece{8 + up_to(random, kBytes - 8 - bytes), bytes}, count{0, 8};
    const Bytes data = pattern(bytes, random());
    Bytes back(bytes);
    const bool shared = one_in(random, 2);
    expect(origin.lock(0, window, shared, nullptr, soon()));
    expect(origin.put(0, window, {&piece, 1}, data.data(), nullptr, soon()));
    expect(origin.get(0, window, {&piece, 1}, back.data(), soon()));
    if (back != data) die("a friend's bytes have changed");
    int64_t old = -1;
    const int64_t add = 1;
    expect(origin.update(0, window, {&count, 1}, nccl_abi::kInt64, WindowOp::kSum,
                         reinterpret_cast<const std::byte*>(&add), reinterpret_cast<std::byte*>(&old), soon()));
    if (old != i) die("a friend's count has changed");
    expect(origin.unlock(0, window, shared, soon()));
    tally.works.fetch_add(1, std::memory_order_relaxed);
  }
}

Bytes make_words(Random& random) {
  Bytes words;
  uint64_t number = 0;
  for (size_t i = 1 + up_to(random, 8); i > 0; --i) {
    const auto kind = static_cast<WindowRequestKind>(1 + up_to(random, 9));
    WindowRequest request = make_request(kind, one_in(random, 10) ? 99 : kHostileWindow);
    request.number = ++number;
    request.flags = kind == WindowRequestKind::kForgo ? 0 : kAnswered;
    std::vector<WindowPiece> pieces;
    switch (kind) {
      case WindowRequestKind::kPut:
      case WindowRequestKind::kGet:
      case WindowRequestKind::kUpdate:
        for (size_t k = up_to(random, one_in(random, 5) ? 255 : 3); k > 0; --k) {
          const uint64_t bytes = one_in(random, 4) ? up_to(random, 60'000) : 8 * up_to(random, 20);
          pieces.push_back({one_in(random, 10) ? random() : 8 * up_to(random, (kBytes - bytes) / 8), bytes});
        }
        if (kind != WindowRequestKind::kUpdate) break;
        request.type = nccl_abi::kInt64;
        request.op = static_cast<uint8_t>(up_to(random, 9));
        if (one_in(random, 3)) request.flags = 0;
        break;
      case WindowRequestKind::kCompareSwap:
        pieces.push_back({8 * up_to(random, kBytes / 8), 8});
        request.type = nccl_abi::kInt64;
        break;
      case WindowRequestKind::kFlush:
        request.window = 0;
        break;
      case WindowRequestKind::kSignal:
        request.slot = static_cast<int32_t>(up_to(random, 9));
        break;
      case WindowRequestKind::kLock:
        request.value = static_cast<int64_t>(up_to(random, 20'000'000));
        [[fallthrough]];
      case WindowRequestKind::kUnlock:
        if (one_in(random, 2)) request.flags |= kShared;
        break;
      case WindowRequestKind::kForgo:
        request.window = 0;
        request.value = static_cast<int64_t>(up_to(random, number));
        break;
      case WindowRequestKind::kTell:
        request.value = static_cast<int64_t>(1 + up_to(random, one_in(random, 10) ? 3 : 2));
        break;
    }
    request.pieces = static_cast<uint32_t>(pieces.size());
    for (const WindowPiece& piece : pieces) request.bytes += piece.bytes;
    if (kind == WindowRequestKind::kCompareSwap) request.bytes *= 2;
    if (kind == WindowRequestKind::kGet || static_cast<WindowOp>(request.op) == WindowOp::kFetch) request.bytes = 0;
    if (one_in(random, 30)) request.bytes = random();
    append(words, request);
    for (const WindowPiece& piece : pieces) append(words, piece);
    const Bytes payload = pattern(std::min<uint64_t>(request.bytes, 1 << 20), random());
    words.insert(words.end(), payload.begin(), payload.end());
  }
  if (one_in(random, 2)) return words;
  for (size_t i = 1 + up_to(random, 3); i > 0; --i) mutate(words, random);
  return words;
}

// Hears some of what it is answered, or nothing.
void say(const net::Descriptor& socket, std::span<const std::byte> words, Random& random) {
  const bool listens = !one_in(random, 4);
  Bytes scratch(1 << 16);
  const auto deadline = Deadline::after(20 * pycomms::kMillisecond);
  while (!words.empty() && !deadline.passed()) {
    const size_t piece = one_in(random, 4) ? std::min(words.size(), 1 + up_to(random, 100)) : words.size();
    const ssize_t sent = net::send_some(socket, words.first(piece));
    if (sent < 0 || (listens && net::receive_some(socket, scratch) < 0)) return;
    words = words.subspan(static_cast<size_t>(sent));
  }
}

WindowMemory& guarded_window(Rank& rank) {
  WindowMemory& memory = rank.open(kHostileWindow, kBytes + 2 * kGuard);
  std::fill_n(memory.data, memory.bytes, kSentinel);
  memory.data += kGuard;
  memory.bytes = kBytes;
  return memory;
}

void attack_service(uint64_t seed, Tally& tally) {
  Random random(seed);
  World world(kRanks, 1 + kFriends);
  const WindowMemory& memory = guarded_window(world[0]);
  for (const uint32_t window : kFriendsWindows) world[0].open(window, kBytes);
  std::atomic<bool> stop{false};
  std::vector<std::thread> friends;
  for (int rank = 1; rank <= kFriends; ++rank) {
    friends.emplace_back([&, rank, own = random()] { work_in_friendship(world, rank, own, stop, tally); });
  }
  std::vector<net::Descriptor> lingering;
  for (int rank = 1 + kFriends; rank < kRanks; ++rank) {
    net::Descriptor socket = world.dial(rank, 0);
    say(socket, make_words(random), random);
    if (one_in(random, 2)) lingering.push_back(std::move(socket));
    if (one_in(random, 8)) lingering.clear();
    ++tally.said;
  }
  stop = true;
  for (std::thread& each : friends) each.join();
  for (size_t i = 0; i < kGuard; ++i) {
    if (memory.data[-1 - static_cast<ptrdiff_t>(i)] != kSentinel || memory.data[kBytes + i] != kSentinel) {
      die("a byte outside the window has changed");
    }
  }
  world[0].close(kHostileWindow);
  if (!world[0].service->stop(soon())) die("the service does not stop");
  tally.rejected += world[0].service->rejections();
}

// --- an origin, and whoever answers it

// What a request asks for.
uint64_t right_bytes(std::span<const std::byte> heard, const WindowRequest& request) {
  uint64_t total = 0;
  const auto kind = static_cast<WindowRequestKind>(request.kind);
  if (kind == WindowRequestKind::kFlush || kind == WindowRequestKind::kLock || kind == WindowRequestKind::kUnlock)
    return 0;
  for (uint32_t i = 0; i < request.pieces && (i + 1) * sizeof(WindowPiece) <= heard.size(); ++i) {
    WindowPiece piece;
    std::memcpy(&piece, heard.data() + i * sizeof(piece), sizeof(piece));
    total += piece.bytes;
  }
  return std::min<uint64_t>(total, kBytes);
}

Bytes make_answers(std::span<const std::byte> heard, Random& random) {
  Bytes words;
  WindowRequest request;
  std::memcpy(&request, heard.data(), sizeof(request));
  for (size_t i = one_in(random, 4) ? up_to(random, 3) : 1; i > 0; --i) {
    if (one_in(random, 20)) request.number = up_to(random, 20);
    if (one_in(random, 20)) request.flags ^= kAnswered;
    const auto verdict = static_cast<WindowVerdict>(one_in(random, 4) ? 1 + up_to(random, 4) : 1);
    const bool has_data = verdict == WindowVerdict::kDone || verdict == WindowVerdict::kPart;
    uint64_t bytes = has_data ? right_bytes(heard.subspan(sizeof(request)), request) : 0;
    if (verdict == WindowVerdict::kRefused) bytes = up_to(random, kWindowWords);
    if (one_in(random, 20)) bytes = up_to(random, 3000);
    append(words, make_answer(request, verdict, bytes, static_cast<int>(up_to(random, 3)) - 1));
    const Bytes payload = pattern(bytes, random());
    words.insert(words.end(), payload.begin(), payload.end());
  }
  if (one_in(random, 10)) mutate(words, random);
  return words;
}

void answer_wrongly(const net::Descriptor& socket, Random& random, const std::atomic<bool>& stop) {
  Bytes heard(1 << 16);
  while (!stop) {
    const ssize_t got = net::receive_some(socket, heard);
    if (got < 0) return;
    if (got < static_cast<ssize_t>(sizeof(WindowRequest))) {
      std::this_thread::yield();
      continue;
    }
    const Bytes words = make_answers(std::span(heard).first(static_cast<size_t>(got)), random);
    static_cast<void>(net::send_some(socket, words));
  }
}

Status call_something(WindowOrigin& origin, Random& random, std::span<std::byte> destination) {
  const auto deadline = Deadline::after(static_cast<int64_t>(up_to(random, 10)) * pycomms::kMillisecond);
  const WindowPiece piece{0, one_in(random, 2) ? 8 : destination.size()};
  const Bytes data(destination.size());
  switch (up_to(random, 6)) {
    case 0:
      return origin.put(1, kHostileWindow, {&piece, 1}, data.data(), nullptr, deadline);
    case 1:
      return origin.update(1, kHostileWindow, {&piece, 1}, nccl_abi::kInt64, WindowOp::kSum, data.data(),
                           destination.data(), deadline);
    case 2:
      return origin.compare_swap(1, kHostileWindow, 0, nccl_abi::kInt64, data.data(), data.data(), destination.data(),
                                 deadline);
    case 3:
      return origin.flush(1, deadline);
    case 4:
      return origin.lock(1, kHostileWindow, one_in(random, 2), nullptr, deadline);
    case 5:
      return origin.unlock(1, kHostileWindow, one_in(random, 2), deadline);
    default:
      return origin.get(1, kHostileWindow, {&piece, 1}, destination.data(), deadline);
  }
}

void attack_origin(uint64_t seed, const std::shared_ptr<net::Endpoint>& endpoint, Tally& tally) {
  Random random(seed);
  std::atomic<bool> stop{false};
  std::vector<std::thread> answering;
  const auto on_arrival = [&answering, &stop, own = random()](net::Arrival arrival) {
    auto socket = arrival.accept();
    if (!socket.is_ok()) return;
    answering.emplace_back([&stop, own, held = socket.take()] {
      Random chance(own);
      answer_wrongly(held, chance, stop);
    });
  };
  const net::Bytes16 topic = must(net::random_bytes16());
  auto registration = must(endpoint->serve({window_topic(topic, 1), kKey, 1, on_arrival}));
  {
    WindowOrigin origin(
        {endpoint, topic, kKey, 0, {endpoint->address(), endpoint->address()}, [](int) { return Status::ok(); }});
    constexpr size_t kOwn = 1000;
    Bytes memory(kOwn + 2 * kGuard, kSentinel);
    static_cast<void>(origin.signal(1, kHostileWindow, {}, soon()));  // connected
    for (int i = 0; i < 20; ++i) {
      const int64_t start = pycomms::now_ns();
      const Status status = call_something(origin, random, std::span(memory).subspan(kGuard, kOwn));
      if (pycomms::now_ns() - start > kPatience) die("a call does not end");
      if (!status.is_ok() && status.message().empty()) die("an error without a reason");
      ++tally.calls;
      tally.errors += !status.is_ok();
    }
    for (size_t i = 0; i < kGuard; ++i) {
      if (memory[i] != kSentinel || memory[kGuard + kOwn + i] != kSentinel)
        die("a byte beside the destination has changed");
    }
  }
  stop = true;
  registration.reset();
  for (std::thread& each : answering) each.join();
}

}  // namespace

int main(int argc, char** argv) {
  const auto [seconds, seed] = arguments(argc, argv);
  try {
    Tally tally;
    const auto endpoint = net_test::start_endpoint();
    const auto deadline = Deadline::after(seconds * pycomms::kSecond);
    for (uint64_t round = 0; !deadline.passed(); ++round) {
      attack_service(seed + 1000 * round, tally);
      for (uint64_t i = 0; i < 10; ++i) attack_origin(seed + 1000 * round + i, endpoint, tally);
    }
    std::printf("friends' rounds %llu, said %llu, rejected %llu; calls %llu, errors %llu\n",
                static_cast<unsigned long long>(tally.works.load()), static_cast<unsigned long long>(tally.said),
                static_cast<unsigned long long>(tally.rejected), static_cast<unsigned long long>(tally.calls),
                static_cast<unsigned long long>(tally.errors));
    if (tally.works == 0 || tally.rejected == 0 || tally.errors == 0) die("nothing happened");
  } catch (const check::Failure& failure) {
    die(failure.text);
  }
  return 0;
}
