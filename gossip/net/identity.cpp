#include "gossip/net/identity.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

#include "gossip/net/file.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr const char* kKeyFile = "identity.key";
constexpr const char* kSwarmKeyFile = "swarm.key";
constexpr const char* kGenerationFile = "generation";
constexpr size_t kKeySeedBytes = 32;
constexpr uint64_t kGenerationMax = 1ull << 62;  // far above any clock; a damaged file is noticed, not believed

static_assert(crypto_sign_SEEDBYTES == kKeySeedBytes);
static_assert(crypto_sign_BYTES == sizeof(Signature));
static_assert(crypto_box_SECRETKEYBYTES == sizeof(CurveKey) && crypto_box_SEEDBYTES == sizeof(KeySeed));
static_assert(crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_PUBLICKEYBYTES == 32);
static_assert(sizeof(crypto_generichash_state) <= 384);

void start_sodium() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium found no source of random numbers on this system");
}

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, const std::string& remedy) {
  const std::string cause = std::strerror(errno);
  throw std::runtime_error(what + " " + path.string() + ": " + cause + "; " + remedy);
}

bool write_all(int fd, const void* data, size_t byte_count) {
  const char* at = static_cast<const char*>(data);
  while (byte_count > 0) {
    const ssize_t written = ::write(fd, at, byte_count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    byte_count -= static_cast<size_t>(written);
  }
  return true;
}

// Up to `byte_count_max` bytes; -1 on error.
ssize_t read_some(int fd, void* data, size_t byte_count_max) {
  size_t total = 0;
  while (total < byte_count_max) {
    const ssize_t got = ::read(fd, static_cast<char*>(data) + total, byte_count_max - total);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    total += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(total);
}

void sync_folder(const std::filesystem::path& dir) {
  const File folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open() && (::fsync(folder.fd()) == 0 || cannot_sync_folders(errno))) return;
  fail("cannot sync the folder", dir, "check the disk");
}

void make_folder(const std::filesystem::path& dir) {
  std::error_code error;
  const auto above = dir.has_filename() ? dir.parent_path() : dir.parent_path().parent_path();
  std::filesystem::create_directories(above, error);
  if (::mkdir(dir.c_str(), 0700) == 0 || (errno == EEXIST && std::filesystem::is_directory(dir, error))) return;
  fail("cannot make the folder", dir, "choose a folder that this user may write");
}

bool is_swarms(const std::filesystem::path& path) { return path.filename() == kSwarmKeyFile; }

// Empty: nobody else may open it. Else what was done about that, for people.
std::string close_key(const std::filesystem::path& path, int fd, struct stat info) {
  constexpr mode_t kOthers = 077;
  if ((info.st_mode & kOthers) == 0) return "";
  if (::fchmod(fd, 0600) != 0 || ::fstat(fd, &info) != 0 || (info.st_mode & kOthers) != 0) {
    throw std::runtime_error(path.string() +
                             " holds a private key that others may open, and its mode cannot be changed: that disk "
                             "is read-only, or its file system keeps no modes; choose a folder on another disk");
  }
  return path.string() +
         " holds a private key that other users could open; its mode is 0600 now. If one of them may have a copy, " +
         (is_swarms(path) ? "begin a new swarm: a holder of this key can join and invite others"
                          : "move it away: a new key is made, and this agent becomes a new peer");
}

Identity read_key(const std::filesystem::path& path, int fd, std::string* remark) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) fail("cannot examine", path, "check the disk");
  if (!S_ISREG(info.st_mode)) {
    throw std::runtime_error(
        path.string() + " is no regular file; move it away" +
        (is_swarms(path) ? ", and start with --bootstrap and a ticket of the swarm" : ", and a new key is made"));
  }
  if (info.st_uid != ::geteuid()) {
    throw std::runtime_error(path.string() + " belongs to another user; run as its owner, or: chown " +
                             std::to_string(::geteuid()) + " " + path.string());
  }
  const std::string closed = close_key(path, fd, info);
  if (remark) *remark = closed;
  std::array<uint8_t, kKeySeedBytes + 1> bytes{};  // one more, to notice a longer file
  const ssize_t got = read_some(fd, bytes.data(), bytes.size());
  if (got != static_cast<ssize_t>(kKeySeedBytes)) {
    sodium_memzero(bytes.data(), bytes.size());
    throw std::runtime_error(path.string() + " is damaged (it must hold 32 bytes); " +
                             (is_swarms(path) ? "restore it from a copy, or move it away and start with --bootstrap "
                                                "and a ticket of the swarm"
                                              : "restore it from a copy, or move it away: a new key is made, and "
                                                "this agent becomes a new peer"));
  }
  std::array<uint8_t, kKeySeedBytes> key_seed;
  std::memcpy(key_seed.data(), bytes.data(), key_seed.size());
  Identity identity(key_seed);
  sodium_memzero(bytes.data(), bytes.size());
  sodium_memzero(key_seed.data(), key_seed.size());
  return identity;
}

// Written under another name first: a crash half way leaves no half key under the real one. link() refuses to
// replace a file, so of two agents started at once in one folder the second reads the first one's key.
void create_key(const std::filesystem::path& dir, const std::filesystem::path& path, KeySeed key_seed) {
  const std::filesystem::path draft = dir / (path.filename().string() + "." + std::to_string(::getpid()) + ".new");
  ::unlink(draft.c_str());
  {
    const File file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const bool written =
        file.is_open() && write_all(file.fd(), key_seed.data(), key_seed.size()) && ::fsync(file.fd()) == 0;
    sodium_memzero(key_seed.data(), key_seed.size());
    if (!written) fail("cannot write", draft, "free space, or choose a folder that this user may write");
  }
  bool named = ::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST;
  std::error_code error;
  // A file system without hard links (vfat, some shares): the lock of the folder has to keep others away.
  if (!named && !std::filesystem::exists(path, error)) named = ::rename(draft.c_str(), path.c_str()) == 0;
  const int cause = errno;
  ::unlink(draft.c_str());
  errno = cause;
  if (!named) fail("cannot create", path, "choose a folder that this user may write");
  sync_folder(dir);
}

// nullopt: no such file.
std::optional<Identity> load_key(const std::filesystem::path& path, std::string* remark) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.is_open()) return read_key(path, file.fd(), remark);
  if (errno == ELOOP) {
    throw std::runtime_error(path.string() + " is a symbolic link; put the key file itself there");
  }
  if (errno != ENOENT) fail("cannot open", path, "make it readable for this user (chmod 600)");
  return std::nullopt;
}

uint64_t read_generation(const std::filesystem::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return 0;
    if (errno == ELOOP) {
      throw std::runtime_error(path.string() +
                               " is a symbolic link, which is not followed; remove it: the clock gives "
                               "a new number");
    }
    fail("cannot open", path, "make it readable for this user");
  }
  char text[32];
  const ssize_t got = read_some(file.fd(), text, sizeof text);
  if (got < 0) fail("cannot read", path, "check the disk");
  const char* end = text + got;
  if (end != text && end[-1] == '\n') --end;
  uint64_t stored = 0;
  const auto [stop, error] = std::from_chars(text, end, stored);
  if (error != std::errc() || stop != end || stored > kGenerationMax) {
    throw std::runtime_error(path.string() +
                             " is damaged (it must hold one number); remove it: the clock gives a "
                             "new one");
  }
  return stored;
}

}  // namespace

Identity::Identity(const KeySeed& key_seed) {
  start_sodium();
  crypto_sign_seed_keypair(id_.bytes.data(), secret_.data(), key_seed.data());
}

Identity::~Identity() { sodium_memzero(secret_.data(), secret_.size()); }

Identity::Identity(Identity&& other) noexcept : id_(other.id_), secret_(other.secret_) {
  sodium_memzero(other.secret_.data(), other.secret_.size());
}

Signature Identity::sign(std::span<const std::byte> message) const {
  Signature signature;
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char*>(message.data()),
                       message.size(), secret_.data());
  return signature;
}

KeySeed Identity::seed() const {
  KeySeed seed;
  crypto_sign_ed25519_sk_to_seed(seed.data(), secret_.data());
  return seed;
}

CurveKey Identity::curve_secret() const {
  CurveKey secret;
  crypto_sign_ed25519_sk_to_curve25519(secret.data(), secret_.data());
  return secret;
}

std::optional<CurveKey> curve_public(const PeerId& id) {
  CurveKey key;
  if (crypto_sign_ed25519_pk_to_curve25519(key.data(), id.bytes.data()) != 0) return std::nullopt;
  return key;
}

CurvePair curve_pair(const KeySeed& seed) {
  CurvePair pair;
  crypto_box_seed_keypair(pair.open.data(), pair.secret.data(), seed.data());
  return pair;
}

KeySeed random_seed() {
  start_sodium();
  KeySeed seed;
  randombytes_buf(seed.data(), seed.size());
  return seed;
}

std::string to_base64(std::span<const uint8_t> bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  text.pop_back();  // the zero byte
  return text;
}

std::vector<uint8_t> from_base64(std::string_view text) {
  if (text.empty()) return {};
  std::vector<uint8_t> bytes(text.size());
  size_t size = 0;
  const int failed = sodium_base642bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &size, nullptr,
                                       sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  bytes.resize(failed == 0 ? size : 0);
  return bytes;
}

void wipe(std::span<uint8_t> secret) {
  if (!secret.empty()) sodium_memzero(secret.data(), secret.size());
}

bool verify(const PeerId& signer, std::span<const std::byte> message, const Signature& signature) {
  return crypto_sign_verify_detached(signature.data(), reinterpret_cast<const unsigned char*>(message.data()),
                                     message.size(), signer.bytes.data()) == 0;
}

Identity load_or_create_identity(const std::filesystem::path& dir, std::string* remark) {
  start_sodium();
  make_folder(dir);
  const std::filesystem::path path = dir / kKeyFile;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (auto key = load_key(path, remark)) return *std::move(key);
    if (attempt == 0) create_key(dir, path, random_seed());
  }
  throw std::runtime_error(
      path.string() + " vanished while it was made; stop what cleans that folder, or name another one with --state");
}

void store_identity(const std::filesystem::path& dir, const KeySeed& key_seed) {
  start_sodium();
  make_folder(dir);
  if (!load_key(dir / kKeyFile, nullptr)) create_key(dir, dir / kKeyFile, key_seed);
}

std::optional<Identity> load_swarm_key(const std::filesystem::path& dir, std::string* remark) {
  start_sodium();
  return load_key(dir / kSwarmKeyFile, remark);
}

void store_swarm_key(const std::filesystem::path& dir, const Identity& key) {
  make_folder(dir);
  create_key(dir, dir / kSwarmKeyFile, key.seed());
  const std::optional<Identity> stored = load_swarm_key(dir);
  if (stored && stored->id() == key.id()) return;
  throw std::runtime_error((dir / kSwarmKeyFile).string() +
                           " is the key of another swarm; name a new folder with --state, or, if no swarm has let "
                           "this agent in yet (no settings.yaml is there), remove that file");
}

uint64_t generation_by_clock() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const auto unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  return static_cast<uint64_t>(std::max<int64_t>(unix_ms, 1));
}

uint64_t next_generation(const std::filesystem::path& dir, bool by_clock) {
  make_folder(dir);
  const std::filesystem::path path = dir / kGenerationFile;
  uint64_t next = read_generation(path) + 1;
  if (by_clock) next = std::max(next, generation_by_clock());
  if (next > kGenerationMax) {  // members would refuse it
    throw std::runtime_error(path.string() +
                             " cannot grow: somebody gave members a number of this identity that no "
                             "clock gives. Remove it and " +
                             (dir / kKeyFile).string() + ": this agent keeps its model, and joins as a new member");
  }
  store_generation(dir, next);
  return next;
}

void store_generation(const std::filesystem::path& dir, uint64_t generation) {
  const std::filesystem::path path = dir / kGenerationFile;
  const std::filesystem::path draft = dir / (std::string(kGenerationFile) + ".new");
  const std::string text = std::to_string(generation) + "\n";
  ::unlink(draft.c_str());
  {
    const File file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.is_open() || !write_all(file.fd(), text.data(), text.size()) || ::fsync(file.fd()) != 0) {
      fail("cannot write", draft, "free space, or choose a folder that this user may write");
    }
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) fail("cannot replace", path, "check its folder");
  sync_folder(dir);
}

// ---- the BLAKE2b half of hash.h ----

std::array<uint8_t, 32> blake2b_256(std::span<const std::byte> bytes) {
  std::array<uint8_t, 32> digest;
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     nullptr, 0);
  return digest;
}

std::array<uint8_t, 16> blake2b_128(std::span<const std::byte> bytes) {
  std::array<uint8_t, 16> digest;
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     nullptr, 0);
  return digest;
}

Blake2b256::Blake2b256() {
  crypto_generichash_init(reinterpret_cast<crypto_generichash_state*>(state_.data()), nullptr, 0, 32);
}

void Blake2b256::update(std::span<const std::byte> bytes) {
  crypto_generichash_update(reinterpret_cast<crypto_generichash_state*>(state_.data()),
                            reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::array<uint8_t, 32> Blake2b256::finish() {
  std::array<uint8_t, 32> digest;
  crypto_generichash_final(reinterpret_cast<crypto_generichash_state*>(state_.data()), digest.data(), digest.size());
  return digest;
}

}  // namespace starling
