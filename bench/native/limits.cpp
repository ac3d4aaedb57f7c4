// The machine's limits as a contestant: what two processes can do at best, with no library between them and the memory.
//   limits SOCKET CORES        forks into two ranks; each speaks the driver's protocol
// Series are named KIND or KIND/VARIANT. The report takes the best variant of a kind:
//   staged   private buffers, through shared rings       direct   both buffers in shared memory
//   solo     one process alone                           both     the two at once
// Must not know torch, MPI or ours.
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "transfers.h"

namespace bench {
namespace {

// A private buffer, touched.
class Buffer {
 public:
  explicit Buffer(size_t n) : bytes_(n * sizeof(float)) {
    data_ = static_cast<float*>(map_or_die(bytes_, MAP_PRIVATE | MAP_ANONYMOUS, -1));
    std::memset(data_, 0, bytes_);
  }
  ~Buffer() { munmap(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data() { return data_; }

 private:
  float* data_;
  size_t bytes_;
};

struct Variant {
  std::string kind, detail;
  int per;  // operations in one call
  std::function<void()> call;

  std::string name() const { return detail.empty() ? kind : kind + "/" + detail; }
};

std::string kib(size_t bytes) { return std::to_string(bytes >> 10) + "K"; }

std::string describe(const char* way, const Ring& ring) {
  return std::string(way) + " " + kib(ring.chunk) + " of " + kib(ring.bytes) +
         (ring.store == Store::kStreaming ? " streaming" : "");
}

// The rings worth trying for a message of `bytes`: whole in one chunk, and in chunks of several sizes.
std::vector<Ring> whole_rings(size_t bytes) {
  std::vector<Ring> rings;
  const size_t chunk = std::max<size_t>(4096, (bytes + 4095) / 4096 * 4096);
  for (const size_t ring : {512ul << 10, 2ul << 20, 8ul << 20})
    for (const Store store : {Store::kCached, Store::kStreaming})
      if (chunk * 4 <= ring && (store == Store::kCached || (kHasStreaming && bytes >= kLine)))
        rings.push_back({chunk, ring, store});
  return rings;
}

std::vector<Ring> chunked_rings(size_t bytes) {
  std::vector<Ring> rings;
  std::vector<size_t> chunks{16ul << 10, 64ul << 10, 256ul << 10}, sizes{2ul << 20};
  if (bytes <= (16ul << 20)) {  // beyond, memory sets the pace and a try takes long
    chunks.insert(chunks.end(), {32ul << 10, 128ul << 10});
    sizes.push_back(8ul << 20);
  }
  for (const size_t chunk : chunks)
    for (const size_t ring : sizes)
      for (const Store store : {Store::kCached, Store::kStreaming})
        if (chunk * 2 <= bytes && (store == Store::kCached || kHasStreaming)) rings.push_back({chunk, ring, store});
  return rings;
}

class Limits {
 public:
  explicit Limits(Pair& pair) : pair_(pair) {}

  Reply prepare(const std::string& op, size_t size) {
    release();
    n_ = std::max<size_t>(1, size / sizeof(float));
    if (n_ * sizeof(float) > kLargest) return refuse("larger than the limits' buffers");
    if (op == "barrier") {
      add("staged", "spin", 1, [this] { pair_.barrier(); });
    } else if (op == "all_reduce" || op == "all_reduce_shared") {
      if (op == "all_reduce") sums();
      direct();
    } else if (op == "all_gather" || op == "all_to_all") {
      moves(n_ / 2, n_ / 2, Take::kCopy, n_ / 2);
    } else if (op == "reduce_scatter") {
      moves(n_ / 2, n_ / 2, Take::kAdd, n_ / 2);
    } else if (op == "broadcast" || op == "scatter") {
      const size_t sent = op == "scatter" ? n_ / 2 : n_;
      moves(pair_.rank() == 0 ? sent : 0, pair_.rank() == 0 ? 0 : sent, Take::kCopy, op == "scatter" ? n_ / 2 : 0);
    } else if (op == "reduce" || op == "gather") {
      const size_t sent = op == "gather" ? n_ / 2 : n_;
      moves(pair_.rank() == 0 ? 0 : sent, pair_.rank() == 0 ? sent : 0, op == "gather" ? Take::kCopy : Take::kAdd,
            op == "gather" ? n_ / 2 : 0);
    } else if (op == "send_recv") {
      bounces();
    } else if (op == "memcpy" || op == "add") {
      bandwidth(op == "add");
    } else {
      return refuse("no limit is defined for it");
    }
    choose();
    return {};
  }

  Reply run(const Command& shape) {
    Reply reply;
    const int64_t start = now_ns(), queued = queued_ns();
    for (const Variant& variant : variants_) {
      pair_.barrier();
      reply.series.push_back({variant.name(), measure(shape, variant.per, variant.call)});
    }
    pair_.barrier();
    reply.wall_ns = now_ns() - start;
    reply.queued_ns = queued_ns() - queued;
    return reply;
  }

  void release() {
    variants_.clear();
    private_.clear();
    pair_.release();
  }

 private:
  static Reply refuse(const std::string& why) {
    Reply reply;
    reply.unsupported = why;
    return reply;
  }

  void add(std::string kind, std::string detail, int per, std::function<void()> call) {
    variants_.push_back({std::move(kind), std::move(detail), per, std::move(call)});
  }

  float* buffer(size_t n) {
    private_.push_back(std::make_unique<Buffer>(std::max<size_t>(1, n)));
    return private_.back()->data();
  }

  void sums() {
    float* data = buffer(n_);
    const size_t bytes = n_ * sizeof(float);
    if (n_ <= Letter::kFloats) add("staged", "letter", 1, [=, this] { letter_sum(pair_, ++letters_, data, n_); });
    std::vector<Ring> flat = bytes <= (256ul << 10) ? whole_rings(bytes) : std::vector<Ring>{};
    for (const Ring& ring : chunked_rings(bytes)) flat.push_back(ring);
    for (const Ring& ring : flat)
      add("staged", describe("flat", ring), 1,
          [=, this] { exchange(pair_, ring, {data, n_}, {data, n_, Take::kAdd}); });
    for (const Ring& ring : chunked_rings(bytes / 2))
      add("staged", describe("halves", ring), 1, [=, this] { staged_sum(pair_, ring, data, n_); });
  }

  void direct() {
    std::memset(pair_.shared(), 0, n_ * sizeof(float));
    for (const Store store : {Store::kCached, Store::kStreaming})
      if (store == Store::kCached || (kHasStreaming && n_ >= 64))
        add("direct", store == Store::kCached ? "cached" : "streaming", 1, [=, this] { direct_sum(pair_, n_, store); });
  }

  // `sent` floats to the peer and `taken` from it, and `own` copied from my input to my output.
  void moves(size_t sent, size_t taken, Take how, size_t own) {
    float* out = buffer(std::max(sent, own));
    float* in = buffer(std::max(taken, own));
    const size_t bytes = std::max(sent, taken) * sizeof(float);
    std::vector<Ring> rings = chunked_rings(bytes);
    if (bytes <= (256ul << 10))
      for (const Ring& ring : whole_rings(bytes)) rings.push_back(ring);
    for (const Ring& ring : rings)
      add("staged", describe("move", ring), 1, [=, this] {
        exchange(pair_, ring, {out, sent}, {in, taken, how});
        if (own > 0) copy(in, out, own);
      });
  }

  void bounces() {
    float* data = buffer(n_);
    const size_t bytes = n_ * sizeof(float);
    if (n_ <= Letter::kFloats) add("staged", "line", 2, [this] { bounce_line(pair_); });
    std::vector<Ring> rings = chunked_rings(bytes);
    if (bytes <= (256ul << 10))
      for (const Ring& ring : whole_rings(bytes)) rings.push_back(ring);
    for (const Ring& ring : rings)
      add("staged", describe("move", ring), 2, [=, this] { bounce(pair_, ring, data, n_); });
  }

  void bandwidth(bool adds) {
    float* to = buffer(n_);
    float* from = buffer(n_);
    std::memset(pair_.shared(), 0, n_ * sizeof(float));
    const auto pass = [=, this](const float* source, Store store) {
      if (adds)
        bench::add(to, source, n_);
      else
        copy(to, source, n_, store);
    };
    const auto both = [&](const std::string& kind, const float* source, Store store) {
      add(kind + (store == Store::kStreaming ? " streaming" : ""), "", 1, [=] { pass(source, store); });
    };
    for (const Store store : {Store::kCached, Store::kStreaming}) {
      if (store == Store::kStreaming && (adds || !kHasStreaming)) continue;
      both("private, both", from, store);
      both("from shared, both", pair_.peer_shared(), store);
    }
    add("private, alone", "", 1, [=, this] {
      if (pair_.rank() == 0) pass(from, Store::kCached);
    });
    add("from shared, alone", "", 1, [=, this] {
      if (pair_.rank() == 0) pass(pair_.peer_shared(), Store::kCached);
    });
  }

  // Keeps the two fastest variants of each kind and store: which of those wins depends on the placement of the cores,
  // so it is settled by the blocks and not here. Both ranks decide alike.
  void choose() {
    std::map<std::string, std::vector<std::pair<double, size_t>>> ranking;
    const bool large = n_ * sizeof(float) > (16ul << 20);
    const Command shape{.warmup = large ? 1 : 2, .samples = large ? 2 : 7, .inner = n_ < 65536 ? 20 : 1};
    for (size_t i = 0; i < variants_.size(); ++i) {
      pair_.barrier();
      std::vector<double> us = measure(shape, variants_[i].per, variants_[i].call);
      const double best = pair_.agree(*std::min_element(us.begin(), us.end()));
      const bool streaming = variants_[i].detail.find("streaming") != std::string::npos;
      ranking[variants_[i].kind + (streaming ? " streaming" : "")].emplace_back(best, i);
    }
    std::set<size_t> kept;
    for (auto& [kind, found] : ranking) {
      std::sort(found.begin(), found.end());
      for (size_t i = 0; i < std::min<size_t>(2, found.size()); ++i) kept.insert(found[i].second);
    }
    std::vector<Variant> chosen;
    for (const size_t i : kept) chosen.push_back(std::move(variants_[i]));
    variants_ = std::move(chosen);
  }

  Pair& pair_;
  size_t n_ = 0;
  uint64_t letters_ = 0;
  std::vector<Variant> variants_;
  std::vector<std::unique_ptr<Buffer>> private_;
};

int serve(const std::string& socket, const std::string& cores) {
  Pair pair(cores);
  RankLink link(socket, "limits", pair.rank(), "C++ " + std::to_string(kLanes * 32) + "-bit vectors");
  Limits limits(pair);
  Command command;
  while (link.next(command)) {
    Reply reply;
    if (command.verb == "prepare") reply = limits.prepare(command.op, command.size);
    if (command.verb == "run") reply = limits.run(command);
    if (command.verb == "release") limits.release();
    link.answer(reply);
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc != 3) bench::die("usage: limits SOCKET CORES");
  return bench::serve(argv[1], argv[2]);
}
