//! The person's terminal: taken, given back whatever happens, and lent to editors and pagers.
