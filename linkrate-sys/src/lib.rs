//! Every Linux system interface linkrate uses, and every unsafe block
