// Carries the precompiled torch header that every target behind the torch wall reuses; nothing of its own.
