// What secure aggregation is made of, by OpenSSL: X25519 (RFC 7748), HKDF with SHA-256 (RFC 5869), AES-256 in Galois
// counter mode for what one client tells another through the server, and AES-256 in counter mode as the generator of
// masks.
//
// A key that is derived here is for one purpose, which its derivation names, and for one message or one mask: so nonces
// and counters begin at 0. Everything throws Error{kResource} where OpenSSL fails. No torch here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/federated/secure/shamir.h"

namespace muster::federated {

using PublicKey = std::array<std::byte, 32>;

struct KeyPair {
  Secret secret{};
  PublicKey open{};
};

Secret random_secret();
KeyPair make_key_pair();
PublicKey public_key_of(const Secret& secret);

// 32 bytes by HKDF with SHA-256 of the key material, no salt, and `purpose` as info.
Secret derive_key(std::span<const std::byte> material, std::string_view purpose);
// derive_key() of what X25519 gives both sides. Nothing for keys of low order, with which everybody would know it.
std::optional<Secret> agree(const Secret& own, const PublicKey& other, std::string_view purpose);

// REQUIRES: a key for this message alone.
std::vector<std::byte> seal(const Secret& key, std::span<const std::byte> plain);
// Nothing if it was sealed with another key, or altered.
std::optional<std::vector<std::byte>> open_sealed(const Secret& key, std::span<const std::byte> sealed);
constexpr std::size_t kSealBytes = 16;  // more than was sealed

// Adds (or takes away) what the key generates: modulo 2^32, so that one undoes the other.
void add_mask(const Secret& key, std::span<std::uint32_t> words);
void take_mask(const Secret& key, std::span<std::uint32_t> words);

std::array<std::byte, 32> sha256_of(std::span<const std::byte> bytes);

}  // namespace muster::federated
