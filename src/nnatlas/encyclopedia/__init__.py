"""The encyclopedia: a page for every family, made from the facts that the library runs on."""
